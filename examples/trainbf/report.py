"""The tables and the picture of the study."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cells import difference, markdown, spread
from tasks import Task
from training import VARIANTS, Outcome

Runs = Mapping[str, Sequence[Outcome]]
"""Variant -> the outcomes, a seed each."""
ORDER = ("none", "range", "range + weights", "all")
"""The order that figure 5 shows, from worst to best."""


def collect(results: Any, task: Task, seeds: Sequence[int]) -> Runs:
    """Return the runs of a task, without those that have not been."""
    found = {name: [results.find(task, name, seed) for seed in seeds] for name in VARIANTS}
    return {name: [run for run in runs if run is not None] for name, runs in found.items()}


def table(runs: Runs) -> str:
    """Return a Markdown table of the variants of one network: means and sample standard deviations over the seeds.

    Differences to fp32 are paired by seed, with 95 % intervals.
    """
    heads = ["techniques", "accuracy (%)", "minus fp32", "error of the last layer"]
    lines = [[*heads, "exponents used", "bits used (%)", "R", "log2 S"]]
    for name, found in runs.items():
        if not found:
            lines.append([name, "not run", *[""] * 6])
            continue
        base = [run.accuracy for run in runs["fp32"]]
        mine = [run.accuracy for run in found]
        cells = [spread(mine, ".1f")]
        cells += [difference(mine, base, ".1f") if len(base) == len(mine) and name != "fp32" else ""]
        cells += [spread([run.error for run in found], ".1e")]
        cells += [spread([run.exponents for run in found], ".1f")]
        cells += [spread([100 * run.utilisation for run in found], ".1f")]
        cells += [f"{np.mean([run.R for run in found]):.2f}", f"{np.mean([run.scale for run in found]):.1f}"]
        lines.append([name, *cells])
    return markdown(lines)


def orders(runs: Runs) -> list[str]:
    """Return a line for each measure: the order of the techniques from worst to best, beside that of figure 5."""
    if not all(runs[name] for name in ORDER):
        return []
    measures = (
        ("accuracy", "accuracy", 1),
        ("error of the last layer", "error", -1),
        ("exponents used", "exponents", 1),
    )
    lines = []
    for title, field, sign in measures:
        means = {name: sign * float(np.mean([getattr(run, field) for run in runs[name]])) for name in ORDER}
        found = sorted(ORDER, key=means.__getitem__)
        steps = [means[a] < means[b] for a, b in itertools.pairwise(ORDER[:3])]
        kept = all(steps) and means[ORDER[2]] <= means[ORDER[3]]
        lines.append(f"{title}: {' < '.join(found)}: {'as in' if kept else 'not as in'} figure 5")
    return lines


PARTS = {
    "all techniques": ("all", "none", "15.7, 13.9, 3.59"),
    "range normalisation": ("range", "none", "48.3 % of the gain, on average"),
    "weight normalisation": ("range + weights", "range", "52.7 % for Social-LSTM"),
    "loss scaling": ("all", "range + weights", "33.1 % for GCN and UNO"),
    "an fp32 update, without techniques": ("none, fp32 update", "none", ""),
    "an fp32 update, with all techniques": ("all, fp32 update", "all", ""),
}
"""Part -> the variants with it and without it, and its published gain of accuracy."""


def parts(tasks: Sequence[Task], runs: Sequence[Runs]) -> str:
    """Return a Markdown table of what each part adds to the accuracy of each network, paired by seed."""
    lines = [["what it adds, points of accuracy", "published", *(task.title for task in tasks)]]
    for name, (with_it, without, published) in PARTS.items():
        lines.append([name, published, *(_added(mine, with_it, without) for mine in runs)])
    return markdown(lines)


def _added(runs: Runs, with_it: str, without: str) -> str:
    values, base = ([run.accuracy for run in runs[name]] for name in (with_it, without))
    return difference(values, base, ".1f") if values and len(values) == len(base) else "not run"


def plot(path: Path, tasks: Sequence[Task], runs: Sequence[Runs]) -> None:
    """Draw accuracy, error of the last layer, and exponents used, a column for each network. Needs matplotlib."""
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    rows = (("accuracy", "accuracy (%)"), ("error", "error of the last layer"), ("exponents", "exponents used"))
    size = (2.5 * len(tasks) + 1, 7.5)
    figure, grid = pyplot.subplots(len(rows), len(tasks), figsize=size, layout="constrained", squeeze=False)
    names = list(VARIANTS)
    for column, (task, mine) in enumerate(zip(tasks, runs, strict=True)):
        for (field, title), axes in zip(rows, grid[:, column], strict=True):
            for place, name in enumerate(names):
                values = [getattr(run, field) for run in mine[name]]
                axes.plot([place] * len(values), values, "o", markersize=3, color=f"C{place}", alpha=0.6)
                if values:
                    axes.plot([place - 0.35, place + 0.35], [np.mean(values)] * 2, color=f"C{place}")
            axes.set_xticks(range(len(names)), names if field == "exponents" else [], rotation=90)
            axes.grid(color="#e4e4e4")
            axes.set_axisbelow(True)
            if field == "error" and any(mine.values()):
                axes.set_yscale("log")
            if not column:
                axes.set_ylabel(title)
        grid[0, column].set_title(task.title)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
