"""The table and the picture of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cells import difference, markdown, spread, visible
from results import Results
from tasks import Task
from training import Outcome

BASE = "fp32"
Runs = Mapping[str, Sequence[Outcome]]
"""Arithmetic -> the outcomes, a seed each."""


def collect(results: Results, task: Task, arithmetics: Sequence[str], seeds: Sequence[int]) -> Runs:
    """Return the runs of a task, without arithmetics that lack a seed."""
    found = {name: results.runs(task, name, seeds) for name in arithmetics}
    return {name: runs for name, runs in found.items() if runs}


def table(tasks: Sequence[Task], runs: Sequence[Runs], arithmetics: Sequence[str]) -> str:
    """Return the Markdown table, arithmetic by network.

    For each network: its quality, the difference from fp32 (seed by seed), and the mean of |loss - loss of fp32|.
    """
    heads = ["arithmetic"]
    for task in tasks:
        heads += [f"{task.title}: {task.quality}", *_heads(runs), "abs(Δ loss)"]
    lines = [heads]
    for name in arithmetics:
        line = [f"`{name}`"]
        for task, mine in zip(tasks, runs, strict=True):
            line += _cells(task, mine, name)
        lines.append(line)
    return markdown(lines)


def _cells(task: Task, runs: Runs, name: str) -> list[str]:
    if name not in runs:
        return ["not run", *(["", ""] if _single(runs) else ["", "", ""])]
    digits = 2 if task.name == "resnet" else 3
    cells = [spread([run.quality for run in runs[name]], f".{digits}f")]
    if name == BASE or BASE not in runs:
        return [*cells, *(["", ""] if _single(runs) else ["", "", ""])]
    mine, base = ([run.quality for run in runs[which]] for which in (name, BASE))
    seen = [] if _single(runs) else [visible(mine, base, f".{digits}f")]
    return [*cells, difference(mine, base, f".{digits}f"), *seen, f"{np.mean(_deviations(runs, name)):.1e}"]


def _single(runs: Runs) -> bool:
    """Return whether there is one seed only, of which no interval is known."""
    return all(len(outcomes) < 2 for outcomes in runs.values())


def _heads(runs: Sequence[Runs]) -> list[str]:
    """Return the heads of the columns about differences."""
    return ["minus fp32"] if all(map(_single, runs)) else ["minus fp32", "could have been seen"]


def _deviations(runs: Runs, name: str) -> np.ndarray:
    """Return |loss - loss of fp32|, [seed, point]."""
    mine, base = ([run.losses for run in runs[which]] for which in (name, BASE))
    return np.abs(np.subtract(mine, base))


def plot(path: Path, tasks: Sequence[Task], runs: Sequence[Runs]) -> None:
    """Draw the losses over the steps, and below their distance from those of fp32. The bands cover all seeds.

    Needs matplotlib.
    """
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, grid = pyplot.subplots(
        2, len(tasks), figsize=(4.6 * len(tasks) + 1, 6.4), layout="constrained", squeeze=False, sharex="col"
    )
    names = list(dict.fromkeys(name for mine in runs for name in mine))
    for (above, below), task, mine in zip(grid.T, tasks, runs, strict=True):
        for name, outcomes in mine.items():
            color, dashed = f"C{names.index(name)}", "--" if " with " in name else "-"
            losses = np.array([run.losses for run in outcomes])
            steps = (np.arange(losses.shape[1]) + 0.5) * task.steps / losses.shape[1]
            _band(above, steps, losses, color, dashed, name)
            if name != BASE and BASE in mine:
                _band(below, steps, _deviations(mine, name), color, dashed, name)
        above.set_title(f"{task.title}, {len(next(iter(mine.values()), []))} seeds")
        above.set_ylabel("training loss")
        below.set_ylabel("abs(loss − loss of fp32)")
        below.set_yscale("log")
        below.set_xlabel("step")
        for axes in (above, below):
            axes.grid(color="#e4e4e4")
            axes.set_axisbelow(True)
    figure.legend(*_legend(grid[0]), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
    if path.suffix == ".png":
        _in_256_colours(path)


def _in_256_colours(path: Path) -> None:
    """Reduce a picture to 256 colours, which makes the file a third as large."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    small.save(path, optimize=True)


def _band(axes: Any, steps: np.ndarray, values: np.ndarray, color: str, dashed: str, name: str) -> None:
    axes.plot(steps, values.mean(0), dashed, color=color, label=name, linewidth=1.3)
    axes.fill_between(steps, values.min(0), values.max(0), color=color, alpha=0.18, linewidth=0)


def _legend(row: Sequence[Any]) -> tuple[list[Any], list[str]]:
    found = {label: handle for axes in row for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    return list(found.values()), list(found)
