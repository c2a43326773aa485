"""The charts of trainings over their steps, those of several runs over one another, and the shares of arithmetics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from numc.studies.report.charts import COLOURS, Axis, Band, Chart, Point, Series, decades, linear, slug
from numc.train.runs.groups import over_seeds
from numc.train.runs.read import Run
from numc.train.runs.thin import BINS, boxes, means, stretches, thin, unbroken

BREAKS = 20
"""At most so many stretches of numbers that are not finite are marked in a curve."""
SPREAD = 30.0
"""A curve whose largest value is more than so many times its smallest has a logarithmic axis."""


def colour_of(runs: Sequence[Run], number: int) -> str:
    """Return the colour of a run, which those of its group have, too."""
    return "ink" if len(runs) == 1 else f"c{list(keys(runs)).index(key_of(runs[number])) % COLOURS}"


def key_of(run: Run) -> tuple[bool, str]:
    """Return the name under which a run is drawn, that of its group or its own, after whether it has a group."""
    return (False, run.name) if run.origin is None else (True, run.origin.group)


def keys(runs: Sequence[Run]) -> dict[tuple[bool, str], list[int]]:
    """Return what is drawn as one, by `key_of`: the numbers of the runs of a group, or of a run without one."""
    numbers: dict[tuple[bool, str], list[int]] = {}
    for number, run in enumerate(runs):
        numbers.setdefault(key_of(run), []).append(number)
    return numbers


def shades(runs: Sequence[Run]) -> dict[str, str]:
    """Return the colours of arithmetics and operators: greys if lines of several runs have colours."""
    names = list(dict.fromkeys([*arithmetics(runs), *(name for run in runs for name in fma_shares(run)[0])]))
    if len(runs) == 1:
        return {name: f"c{n % COLOURS}" for n, name in enumerate(names)}
    return {name: f"g{n / max(1, len(names) - 1):.3f}" for n, name in enumerate(names)}


def arithmetics(runs: Sequence[Run]) -> list[str]:
    """Return the names of the arithmetics that the runs used."""
    return list(dict.fromkeys(decision.used for run in runs for decision in run.decisions))


def loss_of(run: Run) -> list[Point]:
    """Return the loss of every step: that of the recipe, or else the metric of this name."""
    points = [
        (float(decision.step), decision.values["loss"]) for decision in run.decisions if "loss" in decision.values
    ]
    return points or metric_of(run, "loss")


def metric_of(run: Run, name: str) -> list[Point]:
    """Return a recorded metric over the steps."""
    return [(float(record.step), record.metrics[name]) for record in run.records if name in record.metrics]


def value_of(run: Run, name: str) -> list[Point]:
    """Return one of the numbers that a recipe decided from, over the steps."""
    return [(float(decision.step), decision.values[name]) for decision in run.decisions if name in decision.values]


def metric_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of recorded metrics, without a loss that `loss_of` takes."""
    names = dict.fromkeys(name for run in runs for record in run.records for name in record.metrics)
    if "loss" in names and all(loss_of(run) == metric_of(run, "loss") for run in runs):
        del names["loss"]
    return list(names)


def value_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of the numbers that recipes decided from, without the loss."""
    return list(
        dict.fromkeys(name for run in runs for decision in run.decisions for name in decision.values if name != "loss")
    )


def loss(runs: Sequence[Run]) -> Chart | None:
    """Return the chart of the loss, with the arithmetics below it; None without a loss."""
    return _over_steps(runs, "loss", "loss", [loss_of(run) for run in runs])


def metrics(runs: Sequence[Run]) -> list[Chart]:
    """Return a chart for each recorded metric, with the arithmetics below it."""
    labels = {name: "loss, recorded" if name == "loss" else name for name in metric_names(runs)}
    charts = [_over_steps(runs, label, label, [metric_of(run, name) for run in runs]) for name, label in labels.items()]
    return [chart for chart in charts if chart is not None]


def values(runs: Sequence[Run]) -> list[Chart]:
    """Return a chart for each number that recipes decided from."""
    curves = {name: [value_of(run, name) for run in runs] for name in value_names(runs)}
    charts = [_over_steps(runs, f"decided-from-{name}", name, its, spread=False) for name, its in curves.items()]
    return [chart for chart in charts if chart is not None]


def steps(runs: Sequence[Run]) -> Axis:
    """Return the axis of the steps of all runs."""
    every = [float(entry.step) for run in runs for some in (run.decisions, run.records, run.observed, run.denormals)
             for entry in (some[:1] + some[-1:])]  # fmt: skip
    low, high = min(every, default=0.0), max(every, default=0.0)
    # Long numbers need room.
    return linear("step of the optimizer", [low, high + 1], margin=0.0, parts=5 if high < 10_000 else 4)


def _over_steps(
    runs: Sequence[Run], name: str, label: str, curves: Sequence[Sequence[Point]], *, spread: bool = True
) -> Chart | None:
    if not any(curves):
        return None
    x, series, shown = steps(runs), [], []
    for (_, group), numbers in keys(runs).items():
        if len(numbers) > 1:
            seeds = over_seeds([curves[number] for number in numbers])
            series.append(_of_group(group, seeds, colour_of(runs, numbers[0]), label))
            shown += [end for _, low, high in series[-1].area for end in (low, high)]
    for number, (run, points) in enumerate(zip(runs, curves, strict=True)):
        if len(keys(runs)[key_of(run)]) > 1:
            continue
        finite, breaks = unbroken(points)
        if len(breaks) > BREAKS:
            finite = [[point for part in finite for point in part]]
        colour = colour_of(runs, number)
        for part in finite:
            drawn = thin(part)
            shown += [y for _, y in drawn]
            faint = len(part) > BINS
            series.append(line(run.name, drawn, colour, label, faint=faint))
            if faint:
                series.append(line(f"{run.name}, mean", means(part), colour, label))
        told = tuple(f"{run.name}, from step {step:.0f} on: the {label} is {y}" for step, y in breaks[:BREAKS])
        marks = tuple(range(len(told)))
        series += (
            [
                Series(
                    label=run.name,
                    points=tuple(breaks[:BREAKS]),
                    colour=colour,
                    shape=0,
                    line=False,
                    told=told,
                    marks=marks,
                )
            ]
            if breaks
            else []
        )
    # Lines of means are in front of all single values.
    series.sort(key=lambda one: not one.faint)
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    y = decades(label, shown) if spread and 0 < low < high / SPREAD else linear(label, shown, parts=6)
    return Chart(name=slug(name), title=label, x=x, y=y, series=tuple(series), bands=bands(runs))


def _of_group(name: str, seeds: Sequence[tuple[float, float, float, float]], colour: str, label: str) -> Series:
    """Return the mean over the runs of a group, in a band from the lowest to the highest of them."""
    mean, low, high = (means([(row[0], row[n]) for row in seeds]) for n in (1, 2, 3))
    area = tuple((x, a, b) for (x, a), (_, b) in zip(low, high, strict=True))
    return replace(line(f"{name}, mean of its runs", mean, colour, label), label=name, area=area)


def line(name: str, points: Sequence[Point], colour: str, label: str, *, faint: bool = False) -> Series:
    """Return a line through points; few of them have texts."""
    told = tuple(f"{name}, step {x:,.0f}: {label} {y:.6g}" for x, y in points) if len(points) <= BREAKS else ("",)
    return Series(label=name, points=tuple(points), colour=colour, shape=0, line=True, told=told, faint=faint)


def bands(runs: Sequence[Run]) -> tuple[Band, ...]:
    """Return a strip for each run that shows the arithmetics of its steps."""
    names = arithmetics(runs)
    colours, strips = shades(runs), []
    for (_, label), numbers in keys(runs).items():
        number = numbers[0]  # of a group the first run
        run = runs[number]
        if run.decisions:
            its = boxes(stretches(run.decisions), names)
            parts = tuple((name, colours[name], tuple(its[name])) for name in names if its[name])
            of = (label, colour_of(runs, number)) if len(runs) > 1 else ("", "")
            strips.append(Band(*of, parts))
    return tuple(strips)


def step_shares(run: Run) -> dict[str, float]:
    """Return the fraction of steps in each arithmetic."""
    counts = Counter(decision.used for decision in run.decisions)
    return {name: count / len(run.decisions) for name, count in counts.items()}


def fma_shares(run: Run) -> tuple[dict[str, float], str]:
    """Return the fraction of multiply-adds of each operator, and of which steps."""
    counts, of = Counter(next((record.fmas for record in reversed(run.records) if record.fmas), {})), "of all steps"
    if not counts:
        counts = sum((its.fmas() for its in run.epochs.values()), Counter())
        of = f"of the {len(run.observed):,} observed steps"
    by_fma = Counter[str]()
    for (_, fma), count in counts.items():
        by_fma[fma] += count
    return ({fma: count / by_fma.total() for fma, count in by_fma.items()}, of) if by_fma.total() else ({}, "")
