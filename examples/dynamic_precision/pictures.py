"""The pictures of the sweeps, a network each: share of multiply-adds and quality over the threshold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from results import Results
from settings import BASE, BLOCKS, FACTORS, SWEPT, Dynamic
from tables import Task, measures


def plot(path: Path, results: Results, tasks: Sequence[Task], seeds: Sequence[int]) -> None:
    """Draw the sweep of each network into NAME-NETWORK.SUFFIX, in the format that the suffix of `path` names."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "numc"  # the same file for the same numbers
    for task in tasks:
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
        measure = measures(task)[-1]
        base = [measure.of(run) for run in results.runs(task, BASE, seeds) or []]
        for block in BLOCKS:
            names = [Dynamic(SWEPT, block=block, factor=factor).name for factor in FACTORS]
            runs = [results.runs(task, name, seeds) or [] for name in names]
            shares = [100 * np.mean([run.measured["low"] for run in some]) for some in runs]
            left.plot(FACTORS, shares, "o-", label=f"block of {block} steps")
            values = [np.mean([measure.of(run) for run in some]) - np.mean(base) for some in runs]
            right.plot(FACTORS, values, "o-")
        right.axhline(0, color="#888", linewidth=1)
        left.set_ylabel("multiply-adds in the low arithmetic (%)")
        right.set_ylabel(f"{measure.title} minus fp32")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xticks(FACTORS, [f"x {factor:g}" for factor in FACTORS])
            axes.set_xlabel("threshold, times the automatic one")
            axes.grid(color="#e4e4e4")
        figure.suptitle(f"{task.title}, {len(seeds)} seed{'s' * (len(seeds) > 1)}")
        figure.legend(loc="outside lower center", ncols=len(BLOCKS))
        target = path.with_name(f"{path.stem}-{task.name}{path.suffix}")
        figure.savefig(target, dpi=90, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
