"""The charts of a comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from numc.studies.metrics import METRICS
from numc.studies.report.charts import (
    COLOURS,
    Axis,
    Chart,
    Exponents,
    Point,
    Rule,
    Series,
    accumulator_bits,
    decades,
    distinct,
    exponents_of,
    linear,
    slug,
    swamping_axes,
)
from numc.studies.results import BREAKS, ComparisonData, Result

REFERENCE = "ink"  # the colour of fp32; other arithmetics have c0, c1, ...; layers have q0.000 to q1.000
_MOST = 2
"""Errors above 10^2 are at the end of the axis: how far does not matter."""


def colour_of(comparison: ComparisonData, result: Result) -> tuple[str, int]:
    """Return the colour and the shape of the marker of an arithmetic."""
    number = comparison.results.index(result)
    if number == 0:
        return REFERENCE, 0
    return f"c{(number - 1) % COLOURS}", 1 + (number - 1) % 5 + (number - 1) // COLOURS


def accuracy(comparison: ComparisonData) -> Chart:
    """Return the chart of the first metric over area."""
    name = comparison.metrics[0]
    metric = METRICS[name]
    scale = 100.0 if metric.percent else 1.0
    values = [r.metrics[name] * scale for r in comparison.results]
    label = f"{name} (%)" if metric.percent else name
    shown = near(values, metric.best == "max")
    axis = linear(label, shown, better="high" if metric.best == "max" else "low")
    told = [f"{name} {v:.4g}{'%' if metric.percent else ''}" for v in values]
    return _over_area(
        comparison, "accuracy", f"{name} over area", y=axis, values=values, told=told, high=metric.best == "max"
    )


def near(values: Sequence[float], high: bool) -> list[float]:
    """Return the values that an axis shows, without those that are so bad that the others would lie on one another.

    The values from the best one on, up to the first gap that is more than four times as wide as all before it; at
    least half of them.
    """
    ordered = sorted((v for v in values if math.isfinite(v)), reverse=high)
    for n in range(max(2, (len(ordered) + 1) // 2), len(ordered)):
        spread = abs(ordered[n - 1] - ordered[0])
        if spread > 0 and abs(ordered[n] - ordered[n - 1]) > 4 * spread:
            return ordered[:n]
    return ordered


def error(comparison: ComparisonData) -> Chart:
    """Return the chart of the relative error of the outputs over area."""
    values = [r.error for r in comparison.results]
    axis = decades("relative error against fp32", values, "low", _MOST)
    told = [f"relative error {v:.2g}" for v in values]
    return _over_area(comparison, "error", "error over area", y=axis, values=values, told=told, high=False, leave_out=1)


def has_gates(comparison: ComparisonData) -> bool:
    """Whether the table of areas after synthesis has every operator of every arithmetic."""
    return all(result.gates is not None for result in comparison.results)


def _over_area(
    comparison: ComparisonData,
    name: str,
    title: str,
    y: Axis,
    values: Sequence[float],
    told: Sequence[str],
    high: bool,
    leave_out: int = 0,
) -> Chart:
    by_gates = has_gates(comparison)
    areas = [r.gates if by_gates and r.gates is not None else r.area for r in comparison.results]
    low, top = min(areas) / 1.25, max(areas) * 1.25
    unit = "gates" if by_gates else "area units"
    steps = (250, 500, 1000, 2000, 4000, 8000, 16000, 32000) if by_gates else (1, 4, 16, 64, 192, 576, 1728)
    ticks = [t for t in steps if low <= t <= top]
    kept: list[int] = []
    for tick in reversed(ticks):  # far enough apart that their texts do not touch on a narrow page
        if not kept or math.log(kept[-1] / tick) > math.log(top / low) / 7:
            kept.append(tick)
    x = Axis(
        label="gates of an FMA" if by_gates else "units of multipliers",
        low=low,
        high=top,
        ticks=tuple((t, str(t)) for t in reversed(kept)),
        log=True,
        better="low",
    )
    series = []
    for number, result in enumerate(comparison.results[leave_out:], leave_out):
        colour, shape = colour_of(comparison, result)
        size = f"{areas[number]:.4g} {unit}, {areas[0] / areas[number]:.4g} times the FMAs"
        text = f"{result.name}: {told[number]}, {size}"
        outside = math.isfinite(values[number]) and not y.low <= values[number] <= y.high
        series.append(
            Series(
                label=f"{result.name} ({values[number]:.3g})" if outside else result.name,
                points=((areas[number], values[number]),),
                colour=colour,
                shape=shape,
                line=False,
                told=(text,),
            )
        )
    points = sorted((s.points[0] for s in series), key=lambda p: (p[0], -p[1] if high else p[1]))
    front: list[Point] = []
    for point in points:
        if math.isfinite(point[1]) and (not front or (point[1] > front[-1][1] if high else point[1] < front[-1][1])):
            front.append(point)
    return Chart(
        name=name, title=title, x=x, y=y, series=tuple(series), guide=tuple(_steps(front)) if len(front) > 1 else ()
    )


def _steps(front: Sequence[Point]) -> Iterable[Point]:
    """Return the frontier as a staircase, which keeps its value up to the next area."""
    for n, point in enumerate(front):
        if n:
            yield point[0], front[n - 1][1]
        yield point


def layer_names(comparison: ComparisonData) -> list[str]:
    """Return the names of the contractions in program order."""
    return [layer.name or f"contraction {layer.position}" for layer in comparison.results[0].layers]


def layer_errors(comparison: ComparisonData) -> Chart | None:
    """Return the chart of the error of each layer, with a line for each arithmetic; None if there is only fp32."""
    others = [result for result in comparison.results[1:] if result.layers]
    if not others:
        return None
    count = 1 + max(layer.position for result in comparison.results for layer in result.layers)
    every = next(step for power in itertools.count() for step in (10**power, 2 * 10**power, 5 * 10**power)
                 if count / step <= 7 or count <= 10)  # fmt: skip
    x = Axis("contraction, in program order", -0.4, max(count - 0.6, 0.6),
             tuple((n, str(n)) for n in range(0, count, every)))  # fmt: skip
    values = [layer.error for r in others for layer in r.layers]
    y = decades("relative error against fp32", [*values, BREAKS], most=_MOST)
    series = []
    for result in others:
        colour, shape = colour_of(comparison, result)
        points = tuple((float(layer.position), layer.error) for layer in result.layers)
        told = tuple(f"{result.name}, {layer.name}: relative error {layer.error:.2g}" for layer in result.layers)
        first = tuple(n for n, layer in enumerate(result.layers) if layer is result.breaks)
        series.append(
            Series(label=result.name, points=points, colour=colour, shape=shape, line=True, told=told, marks=first)
        )
    rules = (Rule("y", BREAKS, f"{BREAKS:g}: broken"),)
    return Chart(name="layers", title="error by layer", x=x, y=y, series=tuple(series), rules=rules)


def swamping(comparison: ComparisonData) -> tuple[Chart, ...]:
    """Return the charts of the FMAs without swamping, in percent, over significand bits; one for each arithmetic."""
    charts = []
    for result in comparison.results:
        rows = [row for row in result.statistics.rows if row.swamping is not None] if result.statistics else []
        if not rows:
            continue
        x, y = swamping_axes()
        series = []
        for n, row in enumerate(rows):
            points = tuple((float(k), 100.0 * row.without_swamping(k)) for k in range(25))
            told = tuple(f"{row.layer}: {p:.4g}% without swamping at {k:g} bits" for k, p in points)
            colour = f"q{n / max(1, len(rows) - 1):.3f}"
            series.append(Series(label=row.layer, points=points, colour=colour, shape=0, line=True, told=told))
        rules: tuple[Rule, ...] = ()
        if len({row.fma for row in rows}) == 1:
            bits = accumulator_bits(rows[0].fma)
            shares = [100 * row.without_swamping(bits) for row in rows]
            rules = (Rule("x", bits, f"k = {bits}: {_span(min(shares), max(shares))}%"),)
        charts.append(
            Chart(name=f"swamping-{slug(result.name)}", title=result.name, x=x, y=y, series=tuple(series), rules=rules)
        )
    return tuple(charts)


def _span(low: float, high: float) -> str:
    low_text, high_text = f"{low:.3g}", f"{high:.3g}"
    return low_text if low_text == high_text else f"{low_text} to {high_text}"


def exponents(comparison: ComparisonData) -> tuple[Exponents, ...]:
    """Return the exponent histograms of each arithmetic that has them."""
    charts = []
    for result in comparison.results:
        rows = result.statistics.rows if result.statistics else ()
        if (chart := exponents_of(result.name, result.name, rows)) is not None:
            charts.append(chart)
    if charts:  # the format with the narrowest range is the most interesting one
        best = min(range(len(charts)), key=lambda n: _narrowest(charts[n]))
        charts[best] = replace(charts[best], open=True)
    return tuple(charts)


def _narrowest(chart: Exponents) -> int:
    every = [h.inside for _, three in chart.rows for h in three if h is not None and h.inside is not None]
    return min((high - low for low, high in every), default=1 << 20)


def all_charts(comparison: ComparisonData) -> list[Chart | Exponents]:
    """Return all charts that have something to show."""
    charts: list[Chart | Exponents] = [accuracy(comparison)]
    if len(comparison.results) > 1:
        charts.append(error(comparison))
    if (by_layer := layer_errors(comparison)) is not None:
        charts.append(by_layer)
    charts += [*swamping(comparison), *exponents(comparison)]
    return distinct(charts)
