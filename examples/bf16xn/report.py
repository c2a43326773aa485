"""The tables of the study: every operator beside fp32 in five networks, by epoch, and what has become of each claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import published
from cells import difference, markdown, spread, visible
from problems import Task
from published import CLAIMS, Claim
from settings import ARMS, BASE, WHOLE_UPDATE
from training import Outcome

from numc.studies.uncertainty.paired import of_differences

Runs = Mapping[Task, Mapping[str, Sequence[Outcome]]]
"""Task -> arm -> the outcomes, a seed each."""
Value = Callable[[Outcome], float]


def tables(runs: Runs) -> Iterator[str]:
    """Yield what has become of the claims, and two tables for each task: at the end, and by epoch."""
    if all(len(by_arm) == len(ARMS) for by_arm in runs.values()) and len({task.name for task in runs}) > 4:
        yield of_claims(runs)
    for task, by_arm in runs.items():
        yield at_the_end(task, by_arm)
        yield by_epoch(task, by_arm)


def at_the_end(task: Task, runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the quality and the loss of a network after its training, beside the published differences."""
    heads = [f"minus {BASE}", "could have seen", "thesis", f"loss, minus {BASE}", "could have seen"]
    rows = [["operator", f"{task.title}: {task.quality}", *heads]]
    for arm, outcomes in runs.items():
        first = runs[BASE]
        quality, loss = (_pair(outcomes, first, value) for value in (_quality, _loss))
        told = [""] * 5
        if arm != BASE:
            told = [*_compared(*quality, task.form), published.difference(task.name, arm), *_compared(*loss, ".4f")]
        rows.append([arm, spread(quality[0], task.form), *told])
    return markdown(rows)


def by_epoch(task: Task, runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the mean qualities of fp32, an epoch each, and the mean differences to it, bold if an interval says so."""
    rows = [[f"{task.title}: {task.quality}", *(f"epoch {n + 1}" for n in range(task.epochs))]]
    for arm, outcomes in runs.items():
        columns = zip(*(run.qualities for run in outcomes), strict=True)
        base = zip(*(run.qualities for run in runs[BASE]), strict=True)
        pairs = zip(map(list, columns), map(list, base), strict=True)
        cells = [
            f"{np.mean(mine):{task.form}}" if arm == BASE else _compared(mine, theirs, task.form)[0].partition(" (")[0]
            for mine, theirs in pairs
        ]
        rows.append([arm if arm == BASE else f"{arm}, minus {BASE}", *cells])
    return markdown(rows)


def of_claims(runs: Runs) -> str:
    """Return what has become of each published claim."""
    rows = [["the thesis says", "here, minus fp32", "verdict"]]
    by_name = {task.name: (task, by_arm) for task, by_arm in runs.items()}
    for claim in CLAIMS:
        task, by_arm = by_name[claim.task]
        found = {arm: _compared(*_pair(by_arm[arm], by_arm[BASE], _quality), task.form)[0] for arm in claim.arms}
        told = "; ".join(f"{arm.removeprefix('bf16_')}: {cell}" for arm, cell in found.items())
        rows.append(
            [claim.text, told if len(found) < 3 else _widest(claim, task, by_arm), verdict(claim, task, by_arm)]
        )
    return markdown(rows, 3)


def verdict(claim: Claim, task: Task, runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the verdict on a claim: shown, not shown though it could have been seen, or that it could not be seen.

    A loss is shown if an interval excludes zero on its side, and could have been seen if the smallest visible effect is
    no larger than the published one. That nothing is lost is shown if all intervals lie within the margin, and refuted
    if one lies beyond it.
    """
    worse = 1 if task.quality == "perplexity" else -1
    pairs = [_pair(runs[arm], runs[BASE], _quality) for arm in claim.arms]
    if not all(math.isfinite(value) for mine, _ in pairs for value in mine):
        return "shown" if claim.loses is not None else "not so: it fails"
    intervals = [of_differences(*pair) for pair in pairs]
    lost = [sorted((worse * each.low, worse * each.high)) for each in intervals]
    if claim.loses is None:
        if all(-claim.margin < low and high < claim.margin for low, high in lost):
            return f"shown: within {claim.margin:g}"
        beyond = [arm for arm, (low, _) in zip(claim.arms, lost, strict=True) if low > claim.margin]
        return f"not so for {', '.join(beyond)}" if beyond else f"could not be seen: wider than {claim.margin:g}"
    if all(low > 0 for low, _ in lost):
        less = max(high for _, high in lost) < claim.loses
        return "shown, but smaller" if less else "shown"
    if max(each.visible for each in intervals) <= claim.loses:
        return "not shown, though it could have been seen"
    return "could not be seen"


def _widest(claim: Claim, task: Task, runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the arm whose interval goes farthest from zero."""
    reach = {}
    for arm in claim.arms:
        pair = _pair(runs[arm], runs[BASE], _quality)
        interval = of_differences(*pair)
        reach[arm] = max(abs(interval.low), abs(interval.high)), difference(*pair, task.form)
    arm = max(reach, key=lambda name: reach[name][0])
    return f"farthest from 0 of {len(reach)}: {arm.removeprefix('bf16_')}: {reach[arm][1]}"


def _quality(run: Outcome) -> float:
    return run.quality


def _loss(run: Outcome) -> float:
    return run.held_out_loss


def _pair(outcomes: Sequence[Outcome], base: Sequence[Outcome], value: Value) -> tuple[list[float], list[float]]:
    return [value(run) for run in outcomes], [value(run) for run in base]


def _compared(mine: list[float], base: list[float], form: str) -> list[str]:
    """Return the difference with its interval, and what could have been seen; how many have failed, if any has."""
    failed = sum(not math.isfinite(value) for value in mine)
    if failed:
        return [f"fails in {failed} of {len(mine)}", ""]
    return [difference(mine, base, form), visible(mine, base, form)]


def plot(runs: Runs, path: Path) -> None:
    """Draw quality by epoch, and below it the held-out loss minus that of fp32 with its 95 % intervals.

    Needs matplotlib.
    """
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, grid = pyplot.subplots(
        2, len(runs), figsize=(3.6 * len(runs) + 1, 6.4), layout="constrained", squeeze=False, sharex=True
    )
    for (above, below), (task, by_arm) in zip(grid.T, runs.items(), strict=True):
        epochs = np.arange(task.epochs) + 1
        for arm, outcomes in by_arm.items():
            style = {
                "color": f"C{[*ARMS].index(arm)}",
                "linestyle": "--" if arm == WHOLE_UPDATE else "-",
                "marker": ".",
            }
            above.plot(epochs, np.mean([run.qualities for run in outcomes], axis=0), label=arm, **style)
            if arm != BASE:
                _band(below, epochs, outcomes, by_arm[BASE], style)
        above.set(title=task.title, ylabel=task.quality)
        below.set(xlabel="epoch", ylabel="held-out loss, minus fp32", yscale="symlog")
        below.set_yscale("symlog", linthresh=0.01)
        for axes in (above, below):
            axes.grid(color="#e4e4e4")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _band(axes: Any, epochs: np.ndarray, mine: Sequence[Outcome], base: Sequence[Outcome], style: Any) -> None:
    lost = np.subtract([run.held_out_losses for run in mine], [run.held_out_losses for run in base])
    axes.plot(epochs, lost.mean(0), **style)
    if len(lost) < 2 or not np.isfinite(lost).all():
        return
    intervals = [of_differences(column, [0.0] * len(column)) for column in lost.T]
    low, high = ([getattr(each, end) for each in intervals] for end in ("low", "high"))
    axes.fill_between(epochs, low, high, color=style["color"], alpha=0.15, linewidth=0)
