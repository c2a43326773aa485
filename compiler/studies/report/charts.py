"""The contents of the charts of a report, for any way to draw them: points, lines, axes and texts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from numc.compiler.arithmetic.formats import Format
from numc.compiler.arithmetic.grammar import parse_any_conversion, parse_fma
from numc.compiler.statistics import FRACTIONS, TensorStatistics
from numc.compiler.studies.metrics import METRICS
from numc.compiler.studies.report.colours import CATEGORICAL
from numc.compiler.studies.results import BREAKS, ComparisonData, Result

Point = tuple[float, float]
Ticks = tuple[tuple[float, str], ...]

REFERENCE = "ink"  # the colour of fp32; other arithmetics have c0, c1, ...; layers have q0.000 to q1.000
COLOURS = len(CATEGORICAL)


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, logarithmic or linear.

    better: the end where values are better: "low", "high" or "".
    """

    label: str
    low: float
    high: float
    ticks: Ticks
    log: bool = False
    better: str = ""

    def place(self, value: float) -> float:
        """Return the position of a value, from 0 at `low` to 1 at `high`.

        A value that is outside or not finite is at an end.
        """
        if math.isnan(value):
            return 1.0
        if self.log:
            if value <= 0:
                return 0.0
            low, high = math.log(self.low), math.log(self.high)
            found = (math.log(value) - low) / (high - low) if math.isfinite(value) else 1.0
        else:
            found = (value - self.low) / (self.high - self.low) if math.isfinite(value) else float(value > 0)
        return min(1.0, max(0.0, found))


@dataclass(frozen=True)
class Series:
    """Points of one thing, which a line may join.

    shape: the number of the marker. told: the full text of each point. marks: the numbers of points that stand out.
    """

    label: str
    points: tuple[Point, ...]
    colour: str
    shape: int = 0
    line: bool = True
    told: tuple[str, ...] = ()
    marks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A line across a chart at a value of x or y, with a text."""

    axis: str
    value: float
    label: str


@dataclass(frozen=True)
class Chart:
    """One chart.

    name: of its file. guide: the points of a faint line behind everything else, such as a frontier.
    """

    name: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    rules: tuple[Rule, ...] = ()
    guide: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Histogram:
    """The fractions of values by exponent, from `low` on.

    inside: the range of exponents of normal numbers of the format, None if it has no format. below: how many more
    powers of two its subnormals reach down.
    """

    low: int
    fractions: tuple[float, ...]
    format: str
    inside: tuple[int, int] | None
    below: int
    told: str


@dataclass(frozen=True)
class Exponents:
    """The exponent histograms of one arithmetic.

    rows: for each layer, the histograms of a, b and result, or None. open: whether the page shows these first.
    """

    name: str
    title: str
    low: int
    high: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Histogram | None, ...]], ...]
    open: bool = False


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
    axis = _linear(label, values, better="high" if metric.best == "max" else "low")
    told = [f"{name} {v:.4g}{'%' if metric.percent else ''}" for v in values]
    return _over_area(comparison, "accuracy", f"{name} over area", axis, values, told, metric.best == "max")


def error(comparison: ComparisonData) -> Chart:
    """Return the chart of the relative error of the outputs over area."""
    values = [r.error for r in comparison.results]
    axis = _decades("relative error against fp32", values, better="low")
    told = [f"relative error {v:.2g}" for v in values]
    return _over_area(comparison, "error", "error over area", axis, values, told, False, leave_out=1)


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
    areas = [r.area for r in comparison.results]
    low, top = min(areas) / 1.25, max(areas) * 1.25
    ticks = [t for t in (1, 4, 16, 64, 192, 576, 1728) if low <= t <= top]
    kept: list[int] = []
    for tick in reversed(ticks):  # far enough apart that their texts do not touch on a narrow page
        if not kept or math.log(kept[-1] / tick) > math.log(top / low) / 7:
            kept.append(tick)
    x = Axis("area units of an FMA", low, top, tuple((t, str(t)) for t in reversed(kept)), True, "low")
    series = []
    for number, result in enumerate(comparison.results[leave_out:], leave_out):
        colour, shape = colour_of(comparison, result)
        text = f"{result.name}: {told[number]}, {areas[number]:.4g} area units, {result.iso_area:.4g} times the FMAs"
        series.append(Series(result.name, ((areas[number], values[number]),), colour, shape, False, (text,)))
    points = sorted((s.points[0] for s in series), key=lambda p: (p[0], -p[1] if high else p[1]))
    front: list[Point] = []
    for point in points:
        if math.isfinite(point[1]) and (not front or (point[1] > front[-1][1] if high else point[1] < front[-1][1])):
            front.append(point)
    return Chart(name, title, x, y, tuple(series), guide=tuple(_steps(front)) if len(front) > 1 else ())


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
    count = len(layer_names(comparison))
    every = next(step for power in itertools.count() for step in (10**power, 2 * 10**power, 5 * 10**power)
                 if count / step <= 7 or count <= 10)  # fmt: skip
    x = Axis("contraction, in program order", -0.4, max(count - 0.6, 0.6),
             tuple((n, str(n)) for n in range(0, count, every)))  # fmt: skip
    values = [layer.error for r in others for layer in r.layers]
    y = _decades("relative error against fp32", [*values, BREAKS])
    series = []
    for result in others:
        colour, shape = colour_of(comparison, result)
        points = tuple((float(layer.position), layer.error) for layer in result.layers)
        told = tuple(f"{result.name}, {layer.name}: relative error {layer.error:.2g}" for layer in result.layers)
        first = tuple(n for n, layer in enumerate(result.layers) if layer is result.breaks)
        series.append(Series(result.name, points, colour, shape, True, told, first))
    rules = (Rule("y", BREAKS, f"{BREAKS:g}: broken"),)
    return Chart("layers", "error by layer", x, y, tuple(series), rules)


def swamping(comparison: ComparisonData) -> tuple[Chart, ...]:
    """Return the charts of the FMAs without swamping, in percent, over significand bits; one for each arithmetic."""
    found = []
    for result in comparison.results:
        rows = [row for row in result.statistics.rows if row.swamping is not None] if result.statistics else []
        if not rows:
            continue
        x = Axis("significand bits k", 0, 24, tuple((k, str(k)) for k in range(0, 25, 4)))
        y = Axis("FMAs without swamping (%)", 0, 100, tuple((p, str(p)) for p in range(0, 101, 25)))
        series = []
        for n, row in enumerate(rows):
            points = tuple((float(k), 100.0 * row.without_swamping(k)) for k in range(25))
            told = tuple(f"{row.layer}: {p:.4g}% without swamping at {k:g} bits" for k, p in points)
            colour = f"q{n / max(1, len(rows) - 1):.3f}"
            series.append(Series(row.layer, points, colour, 0, True, told))
        rules: tuple[Rule, ...] = ()
        if len({row.fma for row in rows}) == 1:
            bits = accumulator_bits(rows[0].fma)
            shares = [100 * row.without_swamping(bits) for row in rows]
            rules = (Rule("x", bits, f"k = {bits}: {_span(min(shares), max(shares))}%"),)
        found.append(Chart(f"swamping-{_slug(result.name)}", result.name, x, y, tuple(series), rules))
    return tuple(found)


def _span(low: float, high: float) -> str:
    one, other = f"{low:.3g}", f"{high:.3g}"
    return one if one == other else f"{one} to {other}"


def accumulator_bits(fma: str) -> int:
    """Return the significand bits of the accumulator of an operator, those of all its parts together."""
    fmt = parse_fma(fma).acc.format
    return min(24, getattr(fmt, "parts", 1) * fmt.precision - 1)  # if there is no gap between the parts


def exponents(comparison: ComparisonData) -> tuple[Exponents, ...]:
    """Return the exponent histograms of each arithmetic that has them."""
    found = []
    for result in comparison.results:
        rows = []
        for row in result.statistics.rows if result.statistics else ():
            three = tuple(_histogram(row.tensors.get(key)) for key in ("a", "b", "result"))
            if any(three):
                rows.append((row.layer, three))
        if not rows:
            continue
        drawn = [h for _, three in rows for h in three if h is not None and h.fractions]
        low = min((h.low for h in drawn), default=-8)
        high = max((h.low + len(h.fractions) - 1 for h in drawn), default=8)
        # The range of the format is shown as far as it is near, because it may be much wider than the values' range.
        ranges = [h.inside for h in drawn if h.inside is not None]
        low = min([low, *(r[0] - 1 for r in ranges if r[0] > low - 24)])
        high = max([high, *(r[1] + 1 for r in ranges if r[1] < high + 24)])
        found.append(Exponents(f"exponents-{_slug(result.name)}", result.name, low - 1, high + 1,
                               ("operand A", "operand B", "result"), tuple(rows)))  # fmt: skip
    if found:  # the format with the narrowest range is the most interesting one
        best = min(range(len(found)), key=lambda n: _narrowest(found[n]))
        found[best] = replace(found[best], open=True)
    return tuple(found)


def _narrowest(chart: Exponents) -> int:
    every = [h.inside for _, three in chart.rows for h in three if h is not None and h.inside is not None]
    return min((high - low for low, high in every), default=1 << 20)


def _histogram(tensor: TensorStatistics | None) -> Histogram | None:
    if tensor is None:
        return None
    counts, elements = tensor.exponents.trimmed(), max(1, tensor.elements)
    fractions = tuple(count / elements for count in counts.counts)
    fmt = parse_any_conversion(tensor.format).format
    told = [f"{tensor.ranges_used} exponents"]
    if fractions:
        told = [f"{tensor.ranges_used} exponents from {counts.low} to {counts.low + len(fractions) - 1}"]
    told += [f"{tensor.fraction(name):.2%} {name}" for name in FRACTIONS if getattr(tensor, name)]
    inside, below = None, 0
    if isinstance(fmt, Format):
        inside, below = (fmt.emin, fmt.emax), fmt.significand_bits if fmt.subnormals else 0
    return Histogram(counts.low, fractions, tensor.format, inside, below, f"{tensor.format}: {', '.join(told)}")


def all_charts(comparison: ComparisonData) -> list[Chart | Exponents]:
    """Return all charts that have something to show."""
    found: list[Chart | Exponents] = [accuracy(comparison)]
    if len(comparison.results) > 1:
        found.append(error(comparison))
    if (by_layer := layer_errors(comparison)) is not None:
        found.append(by_layer)
    found += [*swamping(comparison), *exponents(comparison)]
    names: Counter[str] = Counter()
    for n, chart in enumerate(found):
        names[chart.name] += 1
        if names[chart.name] > 1:  # another name gives the same file name
            found[n] = replace(chart, name=f"{chart.name}-{names[chart.name]}")
    return found


def _linear(label: str, values: Sequence[float], better: str = "") -> Axis:
    known = [v for v in values if math.isfinite(v)] or [0.0]
    low, high = min(known), max(known)
    margin = 0.12 * (high - low) or max(0.01 * abs(high), 1e-3)
    low, high = low - margin, high + margin
    step = _step((high - low) / 4)
    first = math.ceil(low / step)
    digits = max(0, -math.floor(math.log10(step)))
    ticks = tuple((n * step, f"{n * step:.{digits}f}") for n in range(first, math.floor(high / step) + 1))
    return Axis(label, low, high, ticks, better=better)


def _step(size: float) -> float:
    power = 10.0 ** math.floor(math.log10(size))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= size)


_LEAST, _MOST = -18, 2


def _decades(label: str, values: Sequence[float], better: str = "") -> Axis:
    known = [v for v in values if math.isfinite(v) and v > 0] or [1.0]
    # Errors far above 1 are at the end of the axis: how far does not matter.
    low = max(_LEAST, math.floor(math.log10(min(known)) - 0.15))
    high = max(low + 1, min(_MOST, math.ceil(math.log10(max(known)) + 0.15)))
    every = max(1, math.ceil((high - low) / 6))
    ticks = tuple((10.0**n, f"1e{n}" if n else "1") for n in range(low, high + 1) if (n - high) % every == 0)
    return Axis(label, 10.0**low, 10.0**high, ticks, True, better)


def _slug(name: str) -> str:
    """Return a name as a part of a file name."""
    plain = "".join(c if c.isalnum() or c == "_" else "-" for c in name)
    return "-".join(filter(None, plain.split("-")))
