"""The charts of a sensitivity: the error of each layer alone, of operands, and over the bits of the accumulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from numc.numerics.formats import Record
from numc.numerics.grammar import parse_conversion
from numc.studies.metrics import METRICS
from numc.studies.report.charts import Axis, Chart, Exponents, Rule, Series, decades, linear
from numc.studies.sensitivity.records import Part, SensitivityData

_ALL = "everything"
BY_LAYER = "contraction, in program order"
"""The label of the axis of charts of layers."""


def charts(found: SensitivityData) -> list[Chart | Exponents]:
    """Return the charts that have something to show: errors, and the first metric where labels tell it."""
    made: list[Chart | Exponents] = []
    layers, widths = found.of("layer"), found.of("accumulator")
    for name, value in _values(found).items():
        if len(layers) > 1:
            made.append(_layers(found, layers, name, value))
        if len(widths) > 1:
            made.append(_widths(found, widths, name, value))
    return made


def bits_of(part: Part) -> int:
    """The significand bits of the accumulator that a part is about."""
    fmt = parse_conversion(part.name).format
    assert isinstance(fmt, Record)
    return fmt.significand_bits


def _values(found: SensitivityData) -> dict[str, Callable[[Part], float]]:
    shown: dict[str, Callable[[Part], float]] = {"error": lambda part: part.error}
    first = next(iter(found.metrics), None)
    if first is not None and METRICS[first].needs:  # else it is a distance from fp32, as the error is
        scale = 100.0 if METRICS[first].percent else 1.0
        shown[first] = lambda part: scale * part.metrics[first]
    return shown


def _layers(found: SensitivityData, layers: Sequence[Part], name: str, value: Callable[[Part], float]) -> Chart:
    count = len(layers)
    every = max(1, math.ceil(count / 12))
    x = Axis(BY_LAYER, -0.4, count - 0.6, tuple((n, str(n)) for n in range(0, count, every)))
    places = [(float(n), part) for n, part in enumerate(layers)]
    return _chart(found, "layers: each layer alone", x, places, (name, value))


def _widths(found: SensitivityData, widths: Sequence[Part], name: str, value: Callable[[Part], float]) -> Chart:
    places = sorted(((float(bits_of(part)), part) for part in widths), key=lambda pair: pair[0])
    low, high = places[0][0], places[-1][0]
    x = Axis("significand bits of the accumulator", low - 0.4, high + 0.4, tuple((at, f"{at:g}") for at, _ in places))
    return _chart(found, "accumulator: width of the accumulator", x, places, (name, value))


def _chart(
    found: SensitivityData,
    about: str,
    x: Axis,
    places: Sequence[tuple[float, Part]],
    shown: tuple[str, Callable[[Part], float]],
) -> Chart:
    """A line over parts. about: the file's name and the title; shown: the value's name, and how to get it."""
    (short, _, title), (name, value) = about.partition(": "), shown
    whole = value(found.parts[0])
    values = [*(value(part) for _, part in places), whole]
    if name == "error":
        y = decades(f"relative error of {found.measured}", values, "low")
    else:
        metric = METRICS[name]
        y = linear(f"{name} (%)" if metric.percent else name, values, "high" if metric.best == "max" else "low")
    told = tuple(f"{part.name}: {name} {value(part):.4g}" for _, part in places)
    label = {"layers": "each layer alone"}.get(short, "each width")
    line = Series(label=label, points=tuple((at, value(part)) for at, part in places), colour="c0", shape=1, told=told)
    rules = (Rule("y", whole, _ALL),) if math.isfinite(whole) and 0 < y.place(whole) < 1 else ()
    return Chart(name=f"{short}-{name}", title=f"{title}: {name}", x=x, y=y, series=(line,), rules=rules)
