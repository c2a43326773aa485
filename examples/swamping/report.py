"""The curves of J. Osorio Ríos' thesis, figures 6.2, 7.3, 7.15 and 7.18, as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cells import markdown
from networks import Task
from observed import BITS, DENOMINATORS, ROLES, Outcome

SHOWN = (7, 8, 15, 16, 23, 24)
EXPECTED = ("lstm", "resnet", "transformer")
"""The order of the thesis at 8 bits, ascending: figures 7.15 (55 %), 6.2 (60 % at 7 bits) and 7.18 (from 70 %)."""
TITLES = {"all": "all additions", "nonzero": "of two numbers other than zero"}
Runs = Mapping[Task, Outcome]


def table(runs: Runs) -> str:
    """Return the fractions without swamping, in per cent, by network, denominator and epoch."""
    lines = [["network", "additions", "epoch", *(f"{k} bits" for k in SHOWN)]]
    for task, run in runs.items():
        for denominator in DENOMINATORS:
            for epoch, curve in enumerate(run.curves[denominator]["all"]):
                cells = [f"{100 * curve[BITS.index(k)]:.1f}" for k in SHOWN]
                lines.append([task.title, TITLES[denominator], str(epoch + 1), *cells])
    return markdown(lines)


def roles(runs: Runs) -> str:
    """Return the fractions without swamping at 8 bits in the last epoch, in per cent, by network and role."""
    lines = [["network", "additions", *ROLES]]
    for task, run in runs.items():
        for denominator in DENOMINATORS:
            cells = [f"{100 * run.curves[denominator][role][-1][BITS.index(8)]:.1f}" for role in ROLES]
            lines.append([task.title, TITLES[denominator], *cells])
    return markdown(lines)


def order(runs: Runs) -> dict[str, list[str]]:
    """Return the networks by their fraction at 8 bits in the last epoch, ascending, for each denominator."""
    return {
        denominator: [
            task.name
            for task in sorted(runs, key=lambda task: runs[task].curves[denominator]["all"][-1][BITS.index(8)])
        ]
        for denominator in DENOMINATORS
    }


def data(runs: Runs) -> dict[str, Any]:
    """Return all curves, and the order, in types that JSON has."""
    curves = {task.name: run.curves for task, run in runs.items()}
    return {"bits": BITS, "curves": curves, "order at 8 bits": order(runs), "expected": EXPECTED}


def plot(path: Path, runs: Runs) -> None:
    """Draw one curve for each epoch, a row of pictures for each denominator. Needs matplotlib."""
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, grid = pyplot.subplots(
        2, len(runs), figsize=(3.4 * len(runs) + 0.6, 6), layout="constrained", squeeze=False, sharex=True, sharey=True
    )
    for row, denominator in zip(grid, DENOMINATORS, strict=True):
        for axes, (task, run) in zip(row, runs.items(), strict=True):
            for epoch, curve in enumerate(run.curves[denominator]["all"]):
                axes.plot(BITS, [100 * share for share in curve], label=f"epoch {epoch + 1}", color=f"C{epoch}")
            axes.set_title(f"{task.title}, {TITLES[denominator]}", fontsize=9)
            axes.set_xticks((1, 8, 16, 24))
            axes.grid(color="#e4e4e4")
            axes.set_ylim(0, 102)
        row[0].set_ylabel("% without swamping")
    for axes in grid[-1]:
        axes.set_xlabel("bits of the significand")
    grid[0][0].legend()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
