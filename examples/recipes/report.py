"""The tables of the studies: every recipe beside fp32, seed by seed, with 95 % intervals; and the figure of all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cells import difference, markdown, spread, visible
from searches import AGAIN, SEARCH, SearchPictures, cost
from switches import DYNAMIC, PLACES, SwitchPictures, share
from training import Outcome

from numc.hardware.areas import table
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import Fma
from numc.studies.uncertainty.paired import of_differences

Runs = Mapping[Any, Mapping[str, Sequence[Outcome]]]
"""Task -> arm -> the outcomes, a seed each."""

MEASURES: Mapping[str, tuple[Callable[[Outcome], float], str]] = {
    "accuracy (%)": (lambda run: run.quality, ".2f"),
    "loss on held-out data": (lambda run: run.held_out_loss, ".4f"),
}
PASSES = 4
"""Of an fMAC of 2 x 2 bits over 4 x 4: FAST takes 1, 2 or 4."""


def tables(study: str, runs: Runs) -> Iterator[str]:
    """Yield the tables of a study."""
    if study == "all":
        yield beside_area(runs)
    if study == "switch":
        for task, by_arm in runs.items():
            yield from of_switches(task, by_arm)
        return
    if study == "search":
        for task, by_arm in runs.items():
            yield of_searches(task, by_arm)
    for by_arm in runs.values():
        for name in MEASURES:
            yield of_measure(name, by_arm)
    if study == "booster":
        (by_arm,) = runs.values()
        yield shares(by_arm)
    if study == "unit":
        (by_arm,) = runs.values()
        yield within(by_arm)


def of_measure(name: str, runs: Mapping[str, Sequence[Outcome]], head: str = "recipe") -> str:
    """Return a measure of all arms: its values, differences to the first arm, and what could have been seen of them."""
    value, form = MEASURES[name]
    first, *_ = runs
    base = [value(run) for run in runs[first]]
    rows = [[head, name, f"minus {first}", "could have seen"]]
    for arm, outcomes in runs.items():
        mine = [value(run) for run in outcomes]
        told = ["", ""] if arm == first else [difference(mine, base, form), visible(mine, base, form)]
        rows.append([arm, spread(mine, form), *told])
    return markdown(rows)


def shares(runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Return, for each arm, the share of its multiply-adds in each width of block floating point, and its gates."""
    rows = [["recipe", "multiply-adds in 4 bits", "in 6 bits", "gates for one"]]
    for arm, (run, *_) in runs.items():
        total = sum(run.fmas.values())
        parts = [sum(n for op, n in run.fmas.items() if f"8,{bits - 1})" in op) / total for bits in (4, 6)]
        rows.append([arm, *(f"{part:.1%}" if part else "" for part in parts), _told(gates(run.fmas))])
    return markdown(rows)


def of_switches(task: SwitchPictures, runs: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """Yield what a low arithmetic costs by the blocks it has, and the controls beside dynamic precision."""
    head = f"low is {task.low.partition(' ')[0]}"
    for name in MEASURES:
        yield of_measure(name, runs, head)
    rows = [[head, "multiply-adds in it (%)", *(f"{name}, minus {DYNAMIC}" for name in MEASURES)]]
    for arm in (DYNAMIC, *PLACES):
        pairs = (
            ([value(run) for run in runs[arm]], [value(run) for run in runs[DYNAMIC]], form)
            for value, form in MEASURES.values()
        )
        told = ["", ""] if arm == DYNAMIC else [difference(*pair) for pair in pairs]
        rows.append([arm, spread([100 * share(run) for run in runs[arm]], ".1f"), *told])
    yield markdown(rows)


def of_searches(task: SearchPictures, runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the cost of the forward pass in each arm with formats, and what it gives beside the search."""
    rows = [["formats", f"cost, of {task.formats[-1]}", *(f"{name}, minus {SEARCH}" for name in MEASURES)]]
    for arm in list(runs)[1:]:
        costs = [cost(run, task) for run in runs[AGAIN if arm == SEARCH else arm]]
        pairs = (
            ([value(run) for run in runs[arm]], [value(run) for run in runs[SEARCH]], form)
            for value, form in MEASURES.values()
        )
        told = ["", ""] if arm == SEARCH else [difference(*pair) for pair in pairs]
        rows.append([arm, spread(costs, ".3f"), *told])
    return markdown(rows)


def within(runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Return what eight bits cost each network: differences to its own training in fp32."""
    rows = [["network and its scale", "arithmetic", *(f"{name}, minus its fp32" for name in MEASURES)]]
    for arm, outcomes in runs.items():
        form, _, scale = arm.removesuffix(", loss scale").partition(", u")
        own = f"fp32, u{scale}" if scale else "fp32"
        if arm == own or own not in runs:
            continue
        network = f"u{scale}" if scale else "plain, loss scale" if arm.endswith("loss scale") else "plain"
        pairs = (
            ([value(run) for run in outcomes], [value(run) for run in runs[own]], form_of)
            for value, form_of in MEASURES.values()
        )
        rows.append([network, form, *(difference(*pair) for pair in pairs)])
    return markdown(rows, 2)


def gates(fmas: Mapping[str, int]) -> tuple[float, float] | None:
    """Return the gates of the units for one multiply-add, the mean over all; None if one of them has no area.

    Two numbers, which differ only where a unit makes as many passes as a run decides.
    """
    found = [(_gates(operator), count) for operator, count in fmas.items()]
    if any(each is None for each, _ in found):
        return None
    total = sum(fmas.values())
    low, high = (sum(each[end] * count for each, count in found if each) / total for end in (0, 1))
    return low, high


def _gates(operator: str) -> tuple[int, int] | None:
    """Return the gates of a unit for one product. Its random bits, and conversions of groups, are no part of it."""
    if ".." in operator:  # FAST's fMAC makes 1 to 4 passes
        one = table()[str(parse_fma("lowbfp"))].gates
        return one, PASSES * one
    op = parse_fma(re.sub(r":sr8\b", "", operator))
    row = table().get(str(op)) or table().get(str(parse_fma(f"fma(a={op.a.format.name},acc={op.acc})")))
    if row is None and op.unit is not None:
        row = table().get(str(op.unit)) or table().get(str(_without_chunks(op.unit)))
    return None if row is None else (row.gates, row.gates)


def _without_chunks(op: Fma) -> Fma:
    return parse_fma(re.sub(r",(chunk=\d+|total=fp32)", "", str(op)))


def _told(found: tuple[float, float] | None) -> str:
    if found is None:
        return ""
    low, high = found
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def beside_area(runs: Runs) -> str:
    """Return the accuracies of all recipes on all tasks beside the gates of their units for one multiply-add.

    Multiply-adds, and gates as their mean, are those of the first task.
    """
    first_task, *_ = runs
    first = next(iter(runs[first_task]))
    rows = [
        ["recipe", "gates for a multiply-add", f"multiply-adds of {first}'s", *(f"{t.title}, points" for t in runs)]
    ]
    value, form = MEASURES["accuracy (%)"]
    for arm in runs[first_task]:
        cells = []
        for by_arm in runs.values():
            base, mine = ([value(run) for run in by_arm[name]] for name in (first, arm))
            cells.append(spread(mine, form) if arm == first else difference(mine, base, form))
        fmas, of_first = (runs[first_task][name][0].fmas for name in (arm, first))
        rows.append([arm, _told(gates(fmas)), f"{sum(fmas.values()) / sum(of_first.values()):.2f}", *cells])
    return markdown(rows)


def plot(runs: Runs, path: Path) -> None:
    """Draw the difference to fp32 in accuracy over the gates for a multiply-add, a panel for each task.

    Needs matplotlib. Recipes whose unit has no area are left out; a bar is the 95 % interval.
    """
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, panels = pyplot.subplots(1, len(runs), figsize=(5 * len(runs), 5), layout="constrained", squeeze=False)
    value, _ = MEASURES["accuracy (%)"]
    for axes, (task, by_arm) in zip(panels[0], runs.items(), strict=True):
        first, *others = by_arm
        base = [value(run) for run in by_arm[first]]
        for number, arm in enumerate(others):
            area = gates(by_arm[arm][0].fmas)
            if area is None:
                continue
            interval = of_differences([value(run) for run in by_arm[arm]], base)
            mean = float(np.mean(area))
            bars = [[interval.mean - interval.low], [interval.high - interval.mean]] if interval.count > 1 else None
            style = {"color": f"C{number % 10}", "marker": "os^D"[number // 10], "capsize": 2, "linewidth": 1}
            axes.errorbar([mean], [interval.mean], yerr=bars, xerr=(area[1] - area[0]) / 2, label=arm, **style)
        axes.axhline(0, color="#808080", linewidth=0.8)
        axes.set(title=task.title, xscale="log", xlabel="gates for a multiply-add", ylabel="points, minus fp32")
        axes.set_yscale("symlog", linthresh=1)
        axes.grid(color="#e4e4e4")
    panels[0][-1].legend(fontsize=7, loc="lower right")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
