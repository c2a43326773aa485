"""Distances of profiles, as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from adversarial import Outcome
from cells import markdown, spread
from showers import ENERGIES, MEASURES, SIDE

BASE, OTHER = "fp32", "mp"
Profiles = Mapping[str, Sequence[float]]
Runs = Mapping[str, Sequence[Outcome]]
"""Arithmetic -> the outcomes, a seed each."""
COLUMNS = ("fp32 to simulation", "MP to simulation", "MP to fp32", "fp32 to another seed")


def distances(runs: Runs, truth: Profiles) -> dict[str, dict[str, list[float]]]:
    """Return, by measure and column, the norm of the difference divided by that of the simulation.

    The first three columns have a number for each seed, the last one has a number for each pair of seeds.
    """
    base, other = ([run.profiles for run in runs[name]] for name in (BASE, OTHER))
    pairs: dict[str, list[tuple[Profiles, Profiles]]] = dict(
        zip(
            COLUMNS,
            (
                [(one, truth) for one in base],
                [(one, truth) for one in other],
                list(zip(other, base, strict=True)),
                list(combinations(base, 2)),
            ),
            strict=True,
        )
    )
    return {
        measure: {
            column: [
                float(np.linalg.norm(np.subtract(one[measure], two[measure])) / np.linalg.norm(truth[measure]))
                for one, two in both
            ]
            for column, both in pairs.items()
        }
        for measure in MEASURES
    }


def table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return the means ± sample standard deviations as Markdown, and whether the expected order was found."""
    lines = [["profile", *COLUMNS, "MP to fp32 is the smaller"]]
    for measure, columns in found.items():
        near, far = (np.mean(columns[name]) for name in COLUMNS[2:])
        cells = [spread(columns[name], ".3f") for name in COLUMNS]
        lines.append([measure, *cells, "yes" if near <= far else "no"])
    return markdown(lines)


def _drawn(runs: Runs, truth: Profiles) -> Iterator[tuple[str, list[Profiles], dict[str, Any]]]:
    yield "simulation", [truth], {"color": "black", "linestyle": "--"}
    for number, name in enumerate((BASE, OTHER)):
        yield name, [run.profiles for run in runs[name]], {"color": f"C{number}", "linestyle": "-:"[number]}


def plot(path: Path, runs: Runs, truth: Profiles) -> None:
    """Draw the profiles, linear and logarithmic, and the sampling fraction, a line for each seed. Needs matplotlib."""
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, grid = pyplot.subplots(2, 4, figsize=(14, 6), layout="constrained")
    for row, scale in zip(grid, ("linear", "log"), strict=True):
        for axes, measure in zip(row, MEASURES, strict=True):
            across = ENERGIES if measure == "sampling fraction" else np.arange(SIDE)
            for name, profiles, style in _drawn(runs, truth):
                for number, one in enumerate(profiles):
                    axes.plot(across, one[measure], label=None if number else name, linewidth=1.2, **style)
            axes.set_yscale(scale)
            axes.set_title(
                measure if measure == "sampling fraction" else f"deposits along {measure}, {scale}", fontsize=9
            )
            axes.set_xlabel("primary energy (100 GeV)" if measure == "sampling fraction" else "cell")
            axes.grid(color="#e4e4e4")
    grid[0][0].legend()
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
