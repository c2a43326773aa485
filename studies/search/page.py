"""The HTML page of a search: the values that fill in its template, and its charts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from numc.numerics.notes import notes_in_policy
from numc.studies.report.charts import Chart, Rule, Series, linear
from numc.studies.report.colours import colour
from numc.studies.report.drawing import drawn, environment
from numc.studies.search.driver import Trial
from numc.studies.search.found import Search

ROWS = 500
"""At most so many candidates are in the table of all of them; search.json has the others."""


def render(found: Search, live: str = "", *, stopped: bool = False) -> str:
    """Return the page as text. It refers to no other file.

    live: how far an unfinished search is, whose page loads itself again unless the search was stopped.
    """
    metric, best = found.metric, found.best
    return (
        environment(Path(__file__).parent)
        .get_template("search.html.jinja")
        .render(
            s=found,
            live=live,
            stopped=stopped,
            name=Path(found.model).name,
            fp32=found.rows[0],
            last=found.rows[-1],
            text=metric.text,
            tolerance=_tolerance(found),
            meanings=notes_in_policy(found.policy),
            front=drawn(front_chart(found), labels=""),
            keys=[(label, _look(shade)) for label, shade in _KEYS],
            widths=None if best is None or len(found.space.groups) < 2 else drawn(width_chart(found, best), "ends"),
            names=[group.name for group in found.space.groups],
            layers=None if best is None else found.values(best),
            steps=[_row(found, trial) for trial in found.steps()],
            pareto=[_row(found, trial) for trial in found.front()],
            trials=[_row(found, trial) for trial in found.trials[:ROWS]],
        )
    )


_KEYS = (("found", "c1"), ("on the Pareto front", "c0"), ("other candidates", "g0.500"))
_SHOWN = 10.0  # values that are worse by more than so many tolerances are at the end of the axis


def front_chart(found: Search) -> Chart:
    """Return the chart of the metric over the cost of the candidates, with the front and what was found."""
    metric, fp32 = found.metric, found.rows[0].search
    scale = 100.0 if metric.percent else 1.0
    known = [trial for trial in found.trials if math.isfinite(trial.value)][:ROWS]
    front = set(found.front())
    near = [t.value for t in known if t.worse <= _SHOWN * found.settings["tolerance"]] or [t.value for t in known]
    x = linear(found.settings["objective"], [trial.cost for trial in known], "low")
    better = "high" if metric.best == "max" else "low"
    name = f"{metric.name} (%)" if metric.percent else metric.name
    y = linear(name, [scale * value for value in [fp32, *near]], better)
    series = [
        Series(
            label=f"candidate {trial.number}",
            points=((trial.cost, scale * trial.value),),
            colour=shade,
            shape=1,
            line=False,
            told=(_told(found, trial),),
        )
        for trial in known
        for shade in [_KEYS[0 if trial == found.best else 1 if trial in front else 2][1]]
    ]
    bound = fp32 + found.settings["tolerance"] * (-1 if metric.best == "max" else 1)
    rules = (Rule("y", scale * bound, "tolerance"),) if y.low < scale * bound < y.high else ()
    line = tuple((trial.cost, scale * trial.value) for trial in found.front())
    return Chart(
        name="front",
        title="What accuracy costs",
        x=x,
        y=y,
        series=tuple(series),
        rules=rules,
        guide=line if len(line) > 1 else (),
    )


def width_chart(found: Search, best: Trial) -> Chart:
    """Return the chart of the values of every axis over the groups."""
    count, axes = len(found.space.groups), found.space.axes
    lines = [[axis.size(choice[n]) for choice in best.candidate] for n, axis in enumerate(axes)]
    every = max(1, math.ceil(count / 12))
    ticks = tuple((float(n), str(n)) for n in range(0, count, every))
    x = linear(found.settings["by"], [0.0, count - 1.0])
    x = type(x)(x.label, x.low, x.high, ticks)
    y = linear("value", [0.0, *(float(v) for line in lines for v in line)])
    series = [
        Series(
            label=axis.name,
            points=tuple((float(g), float(v)) for g, v in enumerate(line)),
            colour=f"c{n}",
            shape=n + 1,
            told=tuple(f"{group.name}: {axis.name} = {v}" for group, v in zip(found.space.groups, line, strict=True)),
        )
        for n, (axis, line) in enumerate(zip(axes, lines, strict=True))
    ]
    return Chart(name="widths", title="Widths", x=x, y=y, series=tuple(series))


def _look(name: str) -> dict[str, str]:
    light, dark = colour(name)
    return {"light": light, "dark": dark}


def _tolerance(found: Search) -> str:
    limit = found.settings["tolerance"]
    if not found.metric.percent:
        return f"{limit:g}"
    return f"{100 * limit:g} point{'s' if 100 * limit != 1 else ''}"


def _told(found: Search, trial: Trial) -> str:
    return f"{trial.number}: {_values(found, trial)}; {trial.cost:,.6g}; {found.metric.text(trial.value)}"


def _values(found: Search, trial: Trial) -> str:
    """Return the values of a trial as short text: one for all groups, or one for each."""
    texts = [" ".join(f"{k}{v}" if v.isdigit() else v for k, v in its.items()) for its in found.values(trial).values()]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _row(found: Search, trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "values": _values(found, trial), "cost": trial.cost, "trial": trial}
