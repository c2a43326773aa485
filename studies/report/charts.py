"""The contents of the charts of a report, for any way to draw them: points, lines, axes and texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from numc.compiler.arrays.statistics import FRACTIONS, LayerStatistics, TensorStatistics
from numc.numerics.formats import Format
from numc.numerics.grammar import parse_operand_conversion, stated_fma
from numc.studies.report.colours import CATEGORICAL

Point = tuple[float, float]
Ticks = tuple[tuple[float, str], ...]

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
            position = (math.log(value) - low) / (high - low) if math.isfinite(value) else 1.0
        else:
            position = (value - self.low) / (self.high - self.low) if math.isfinite(value) else float(value > 0)
        return min(1.0, max(0.0, position))


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one thing, which a line may join.

    shape: the number of the marker. told: the full text of each point. marks: the numbers of points that stand out.
    faint: whether it is drawn behind the others, such as single values behind their mean. area: x, low and high of a
    band around it, such as that from the lowest to the highest seed.
    """

    label: str
    points: tuple[Point, ...]
    colour: str
    shape: int = 0
    line: bool = True
    told: tuple[str, ...] = ()
    marks: tuple[int, ...] = ()
    faint: bool = False
    area: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Rule:
    """A line across a chart at a value of x or y, with a text."""

    axis: str
    value: float
    label: str


@dataclass(frozen=True)
class Band:
    """A strip below a chart that shows, over x, what was used: for each name a colour and boxes.

    A box has its ends in x and in y, the latter from 0 to 1. colour: of the lines that the strip belongs to; "" if it
    belongs to all.
    """

    label: str
    colour: str
    parts: tuple[tuple[str, str, tuple[tuple[float, float, float, float], ...]], ...]


@dataclass(frozen=True, kw_only=True)
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
    bands: tuple[Band, ...] = ()


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


@dataclass(frozen=True, kw_only=True)
class Exponents:
    """The exponent histograms of one arithmetic or run.

    rows: for each layer, the histograms of a, b and result, or None. open: whether the page shows these first.
    """

    name: str
    title: str
    low: int
    high: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Histogram | None, ...]], ...]
    open: bool = False


def accumulator_bits(fma: str) -> int:
    """Return the significand bits of the accumulator of an operator, those of all its parts together."""
    fmt = stated_fma(fma).acc.format
    return min(24, getattr(fmt, "parts", 1) * fmt.precision - 1)  # if there is no gap between the parts


def swamping_axes() -> tuple[Axis, Axis]:
    """Return the axes of charts of swamping: significand bits, and the FMAs without swamping, in percent."""
    x = Axis("significand bits k", 0, 24, tuple((k, str(k)) for k in range(0, 25, 4)))
    return x, Axis("FMAs without swamping (%)", 0, 100, tuple((p, str(p)) for p in range(0, 101, 25)))


def exponents_of(name: str, title: str, rows: Iterable[LayerStatistics]) -> Exponents | None:
    """Return the exponent histograms of contractions, None if there are none."""
    layers = []
    for row in rows:
        three = tuple(histogram(row.tensors.get(key)) for key in ("a", "b", "result"))
        if any(three):
            layers.append((row.layer, three))
    if not layers:
        return None
    drawn = [h for _, three in layers for h in three if h is not None and h.fractions]
    low = min((h.low for h in drawn), default=-8)
    high = max((h.low + len(h.fractions) - 1 for h in drawn), default=8)
    # The range of the format is shown as far as it is near, because it may be much wider than the values' range.
    ranges = [h.inside for h in drawn if h.inside is not None]
    low = min([low, *(r[0] - 1 for r in ranges if r[0] > low - 24)])
    high = max([high, *(r[1] + 1 for r in ranges if r[1] < high + 24)])
    return Exponents(
        name=f"exponents-{slug(name)}",
        title=title,
        low=low - 1,
        high=high + 1,
        columns=("operand A", "operand B", "result"),
        rows=tuple(layers),
    )


def histogram(tensor: TensorStatistics | None) -> Histogram | None:
    """Return what a histogram of the exponents of a tensor shows, None without a tensor."""
    if tensor is None:
        return None
    counts, elements = tensor.exponents.trimmed(), max(1, tensor.elements)
    fractions = tuple(count / elements for count in counts.counts)
    fmt = parse_operand_conversion(tensor.format).format
    told = [f"{tensor.ranges_used} exponents"]
    if fractions:
        told = [f"{tensor.ranges_used} exponents from {counts.low} to {counts.low + len(fractions) - 1}"]
    told += [f"{tensor.fraction(name):.2%} {name}" for name in FRACTIONS if getattr(tensor, name)]
    inside, below = None, 0
    if isinstance(fmt, Format):
        inside, below = (fmt.emin, fmt.emax), fmt.precision - 1 if fmt.is_gradual else 0
    return Histogram(
        low=counts.low,
        fractions=fractions,
        format=tensor.format,
        inside=inside,
        below=below,
        told=f"{tensor.format}: {', '.join(told)}",
    )


def distinct(charts: Iterable[Chart | Exponents]) -> list[Chart | Exponents]:
    """Return charts with names that differ, for files."""
    distinct_charts, names = [], Counter[str]()
    for chart in charts:
        names[chart.name] += 1
        again = names[chart.name]
        distinct_charts.append(chart if again == 1 else replace(chart, name=f"{chart.name}-{again}"))
    return distinct_charts


def linear(label: str, values: Sequence[float], better: str = "", margin: float = 0.12, parts: int = 4) -> Axis:
    """Return an axis that shows all finite values, and beyond them a margin, a fraction of their range.

    parts: into about how many the ticks divide it.
    """
    known = [v for v in values if math.isfinite(v)] or [0.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = low - max(0.01 * abs(high), 1e-3), high + max(0.01 * abs(high), 1e-3)
    low, high = low - margin * (high - low), high + margin * (high - low)
    step = _step((high - low) / parts)
    first = math.ceil(low / step)
    digits = max(0, -math.floor(math.log10(step)))
    ticks = tuple((n * step, f"{n * step:,.{digits}f}") for n in range(first, math.floor(high / step) + 1))
    return Axis(label, low, high, ticks, better=better)


def _step(size: float) -> float:
    power = 10.0 ** math.floor(math.log10(size))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= size)


_LEAST = -18


def decades(label: str, values: Sequence[float], better: str = "", most: float = math.inf) -> Axis:
    """Return a logarithmic axis that shows all finite values above 0, from 1e-18 to at most ten to the power `most`."""
    known = [v for v in values if math.isfinite(v) and v > 0] or [1.0]
    low = max(_LEAST, math.floor(math.log10(min(known)) - 0.15))
    high = max(low + 1, int(min(most, math.ceil(math.log10(max(known)) + 0.15))))
    every = max(1, math.ceil((high - low) / 6))
    ticks = tuple((10.0**n, f"1e{n}" if n else "1") for n in range(low, high + 1) if (n - high) % every == 0)
    return Axis(label=label, low=10.0**low, high=10.0**high, ticks=ticks, log=True, better=better)


def slug(name: str) -> str:
    """Return a name as a part of a file name."""
    plain = "".join(c if c.isalnum() or c == "_" else "-" for c in name)
    return "-".join(filter(None, plain.split("-")))
