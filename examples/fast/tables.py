"""The tables of the study, in Markdown: published rows beside those measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import settings
from cells import markdown, spread
from measured import EVERY, Outcome
from published import COLUMNS, TABLE_2

from numc.studies.uncertainty.paired import of_mean

Runs = Mapping[str, Sequence[Outcome]]
"""The outcomes of every training by its name, one of each seed."""


def differences(runs: Runs, name: str) -> list[float]:
    """Return the quality minus that in fp32, seed by seed; the latter may have been trained from more seeds."""
    pairs = zip(runs[name], runs[settings.BASE][: len(runs[name])], strict=True)
    return [run.quality - base.quality for run, base in pairs]


def times(runs: Runs, name: str, target: float) -> list[float]:
    """Return the simulated time up to the first validation that reaches the target, by seed; NaN if none does."""
    found = []
    for run in runs[name]:
        reached = (time for value, time in zip(run.validations, run.seconds, strict=True) if value >= target)
        found.append(next(reached, float("nan")))
    return found


def all_of(runs: Runs, target: float) -> Iterator[str]:
    """Yield the tables of the trainings that there are."""
    columns = [name for name in COLUMNS if runs.get(name)]
    yield table_2(runs, columns)
    yield "From worst to best: " + order(runs, columns)
    yield time_to_accuracy(runs, columns, target)
    halves = [name for name in (*settings.STEPS, *settings.LAYERS) if runs.get(name)]
    if halves:
        rows = [
            [f"{settings.HALF} in the {name}", spread(differences(runs, name), "+.2f"), *_told(runs, name)]
            for name in halves
        ]
        yield markdown([["figure 10", "top-1 minus fp32", "95 % interval", "could have been seen"], *rows])
    if any(runs.get(name) for name in settings.CELLS):
        yield figure_20(runs)


def table_2(runs: Runs, columns: Sequence[str]) -> str:
    """Return table II: differences to fp32."""
    rows = [["", *columns]]
    for network, values in TABLE_2.items():
        known = dict(zip(COLUMNS, values, strict=True))
        base = known[settings.BASE]
        cells = [f"{base:.2f}" if name == settings.BASE else f"{known[name] - base:+.2f}" for name in columns]
        rows.append([f"published: {network}", *cells])
    quality = [run.quality for run in runs[settings.BASE]]
    cells = [
        spread(quality, ".2f") if name == settings.BASE else spread(differences(runs, name), "+.2f") for name in columns
    ]
    told = [("", "") if name == settings.BASE else _told(runs, name) for name in columns]
    intervals, seen = zip(*told, strict=True)
    rows += [["here: ResNet, top-1 (%)", *cells], ["its 95 % interval", *intervals], ["could have been seen", *seen]]
    return markdown(rows)


def _told(runs: Runs, name: str) -> tuple[str, str]:
    """Return the 95 % interval of the difference to fp32, and the smallest that would have shown four times in five."""
    interval = of_mean(differences(runs, name))
    if interval.count < 2:
        return "-", "-"
    return f"{interval.low:+.2f} to {interval.high:+.2f}", f"{interval.visible:.2f}"


def order(runs: Runs, columns: Sequence[str]) -> str:
    """Return the columns in the order of their mean quality."""
    return " < ".join(sorted(columns, key=lambda name: float(np.mean([run.quality for run in runs[name]]))))


def time_to_accuracy(runs: Runs, columns: Sequence[str], target: float) -> str:
    """Return the time that FAST's array, or the one in its place, takes to the target: as a multiple of FAST's."""
    fast = np.array(times(runs, settings.FAST, target)) if settings.FAST in columns else np.array([np.nan])
    rows = [["", *columns]]
    steps = [["steps to the target", *(_steps(runs, name, target) for name in columns)]]
    step = {name: np.array([run.seconds[-1] / len(run.seconds) / EVERY for run in runs[name]]) for name in columns}
    rows += [["time of a step (us)", *(f"{1e6 * np.mean(step[name]):.1f}" for name in columns)], *steps]
    relative = {name: np.array(times(runs, name, target)) / fast for name in columns}
    cells = [spread(list(relative[name]), ".2f") if np.isfinite(relative[name]).all() else "N/A" for name in columns]
    return markdown([*rows, [f"time to {target:g} %, relative to FAST", *cells]])


def _steps(runs: Runs, name: str, target: float) -> str:
    first = [next((n for n, value in enumerate(run.validations, 1) if value >= target), None) for run in runs[name]]
    return "N/A" if None in first else f"{EVERY * np.mean([n for n in first if n]):.0f}"


def figure_20(runs: Runs) -> str:
    """Return the differences to fp32 by magnitude bits and size of groups."""
    rows = [["", *(f"m = {m}" for m in settings.BITS)]]
    for g in settings.GROUPS:
        rows.append([f"g = {g}", *(spread(differences(runs, settings.cell(g, m)), "+.2f") for m in settings.BITS)])
    return markdown(rows)


def data(runs: Runs, target: float) -> dict[str, Any]:
    """Return all numbers of the tables, in types that JSON has."""
    found: dict[str, Any] = {}
    for name, outcomes in runs.items():
        row: dict[str, Any] = {"quality": [run.quality for run in outcomes], "minus fp32": differences(runs, name)}
        if outcomes and outcomes[0].seconds:
            row["seconds"] = [None if np.isnan(time) else time for time in times(runs, name, target)]
        if name == settings.FAST:
            row["passes"] = [run.passes for run in outcomes]
        found[name] = row
    return {"target": target, "runs": found}
