"""The HTML page of trainings: the values that fill in its template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numc.numerics.notes import notes_in
from numc.studies.report.colours import colour
from numc.studies.report.drawing import drawn, environment, ridge
from numc.train.recipes.decision import Decision
from numc.train.runs import charts, number_charts
from numc.train.runs.groups import Row
from numc.train.runs.read import COUNTS, Run
from numc.train.runs.summary import summary
from numc.train.runs.thin import BINS

ROWS = 200
"""At most so many decisions of a run are in its table: as many first as last ones."""
_LOW = 170.0
"""The height in pixels of a chart that stands beside others."""


def render(runs: Sequence[Run], notes: Sequence[str], groups: Sequence[Row]) -> str:
    """Return the page as text. It refers to no other file."""
    of_runs = [{"name": run.name, **_look(charts.colour_of(runs, n))} for n, run in enumerate(runs)]
    origin = next((run.origin for run in runs if run.origin is not None), None)
    layers = number_charts.layer_denormals(runs)
    facts = [summary(run) for run in runs]
    denormals = [[drawn(chart, "", _LOW) for chart in number_charts.denormals(runs, count)] for count in COUNTS]
    template = environment(Path(__file__).parent).get_template("training.html.jinja")
    return template.render(
        runs=of_runs,
        keys=[
            {**of_runs[numbers[0]], "name": name, "count": len(numbers)}
            for (_, name), numbers in charts.keys(runs).items()
        ],
        groups=[(row.group, row.metric, row.seeds, *row.cells) for row in groups],
        origin=origin,
        configuration=", ".join(f"{name} {value}" for name, value in (origin.configuration if origin else {}).items()),
        facts=facts,
        subjects=list(dict.fromkeys(fact.about for its in facts for fact in its)),
        notes=notes,
        meanings=notes_in(dict.fromkeys(fma for run in runs for fma in charts.fma_shares(run)[0])),
        loss=None if (loss := charts.loss(runs)) is None else drawn(loss, labels=""),
        metrics=[drawn(chart, "", _LOW) for chart in charts.metrics(runs)],
        values=[drawn(chart, "", _LOW) for chart in charts.values(runs)],
        bins=BINS,
        thinned=any(len(charts.loss_of(run)) > BINS for run in runs),
        arithmetics=[{"label": name, **_look(charts.shades(runs)[name])} for name in charts.arithmetics(runs)],
        steps=[(run.name, _bar(runs, charts.step_shares(run))) for run in runs if run.decisions],
        fmas=[(run.name, _bar(runs, *its)) for run in runs if (its := charts.fma_shares(run))[0]],
        swamping=_swamping(runs),
        epochs=_epochs(runs),
        denormals=denormals,
        counts=_groups([("", label) for label in COUNTS.values()]),
        layers=[[drawn(chart, "", _LOW) for chart in choice.charts] for choice in layers],
        which=_groups([(choice.group, choice.label) for choice in layers]),
        peaks=[(run.name, _peaks(run)) for run in runs if run.denormals],
        ranges=[drawn(chart, "", _LOW) for chart in number_charts.ranges(runs)],
        exponents=[ridge(chart) for chart in number_charts.exponents(runs)],
        decisions=[(run.name, *_decisions(run)) for run in runs if run.decisions],
    )


def _look(name: str) -> dict[str, str]:
    light, dark = colour(name)
    return {"light": light, "dark": dark}


def _bar(runs: Sequence[Run], shares: dict[str, float], of: str = "") -> dict[str, Any]:
    its = [(name, its) for name, its in charts.shades(runs).items() if name in shares]
    return {"of": of, "parts": [{"label": name, "share": shares[name], **_look(shade)} for name, shade in its]}


def _swamping(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the choices, and for each its charts of all additions and of those of two numbers other than zero."""
    both = [number_charts.swamping(runs, nonzero=nonzero) for nonzero in (False, True)]
    return {
        "groups": _groups([(choice.group, choice.label) for choice in both[0]]),
        "of": _groups([("", "all additions"), ("", "additions of two numbers other than zero")]),
        "charts": [[[drawn(c, "") for c in its.charts] for its in pair] for pair in zip(*both, strict=True)],
    }


def _groups(choices: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return numbered choices, given by group and text, in their groups."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for number, (group, text) in enumerate(choices):
        groups.setdefault(group, []).append((number, text))
    return list(groups.items())


def _epochs(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the ends of the scale of epochs, and colours along it."""
    every = sorted(epoch for run in runs for epoch in run.epochs)
    return {"first": every[0], "last": every[-1], "ramp": [_look(f"q{n / 15:.3f}") for n in range(16)]} if every else {}


def _peaks(run: Run) -> list[dict[str, Any]]:
    """Return the largest fractions of each tensor, for each count, the tensor with the most denormals first."""
    by_count = {
        count: {(layer, tensor): its for layer, tensor, *its in number_charts.peaks(run, count)} for count in COUNTS
    }
    order = by_count[next(iter(COUNTS))]
    return [
        {"layer": layer, "tensor": tensor, "cells": [by_count[count][layer, tensor] for count in COUNTS]}
        for layer, tensor in order
    ]


def _decisions(run: Run) -> tuple[list[Decision], int, list[Decision]]:
    """Return decisions that have a reason: the first ones, the number of those that are left out, and the last ones."""
    every = [decision for decision in run.decisions if decision.reason]
    if len(every) <= ROWS:
        return every, 0, []
    return every[: ROWS // 2], len(every) - ROWS, every[-ROWS // 2 :]
