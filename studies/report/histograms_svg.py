"""Histograms of exponents as SVG: a row for each layer, a column for each operand and the result."""

from __future__ import annotations

import html
from collections.abc import Iterator

from numc.studies.report.charts import Exponents, Histogram
from numc.studies.report.colours import CATEGORICAL, INK
from numc.studies.report.svg import SOFT, STYLE, filled, stroked, written

_ROW, _GAP, _TOP = 52.0, 20.0, 30.0
_RANGE, _EDGE = ("#e6eff7", "#22334a"), ("#7d9cc0", "#4c6f96")


def histograms(chart: Exponents, width: float, alone: bool = False) -> str:
    """Return the SVG. alone: as a file, with a title and a style sheet."""
    count, rows = len(chart.columns), max(1, len(chart.rows))
    wide, top = (width - _GAP * (count - 1) - 16) / count, _TOP + (22 if alone else 0)
    parts = [written(8, 16, chart.title, INK, weight=600)] if alone else []
    for column, title in enumerate(chart.columns):
        left = 8 + column * (wide + _GAP)
        parts.append(written(left, top - 8, f"{title}: exponent", SOFT))
        for n, (name, cells) in enumerate(chart.rows):
            parts += _cell(chart, cells[column], name, at=(left, top + n * _ROW), wide=wide)
        parts += _ticks(chart, left, top + rows * _ROW, wide)
    total = top + rows * _ROW + 24
    head = f'viewBox="0 0 {width:g} {total:g}" width="{width:g}" height="{total:g}"'
    attributes = f'xmlns="http://www.w3.org/2000/svg" {head}' if alone else f'class="drawing" {head}'
    label = html.escape(chart.title)
    return f'<svg {attributes} role="img" aria-label="{label}">{STYLE if alone else ""}{"".join(parts)}</svg>'


def _cell(
    chart: Exponents, histogram: Histogram | None, name: str, *, at: tuple[float, float], wide: float
) -> Iterator[str]:
    left, top = at
    bottom, each = top + _ROW, wide / (chart.high - chart.low + 1)

    def x(exponent: float) -> float:
        return left + each * min(max(exponent - chart.low, 0), chart.high - chart.low + 1)

    if histogram is not None and histogram.inside is not None:
        low, high = histogram.inside[0], histogram.inside[1] + 1
        for start, end, more in ((low - histogram.below, low, ' opacity=".45"'), (low, high, "")):
            if x(end) > x(start):
                box = f'x="{x(start):.1f}" y="{top:.1f}" width="{x(end) - x(start):.1f}" height="{_ROW:g}"'
                yield f'<rect class="f" {box}{more} {filled(_RANGE)}/>'
        for edge in (low, high):
            if chart.low < edge <= chart.high:
                yield f'<path class="k" d="M{x(edge):.1f} {top:.1f}v{_ROW:g}" stroke-width="2" {stroked(_EDGE)}/>'
    if histogram is not None:
        most = max(histogram.fractions, default=1.0) or 1.0
        bars = "".join(
            f"M{x(histogram.low + n) + 0.08 * each:.1f} {bottom:.1f}v-{max((_ROW - 18) * f / most, 0.8):.1f}"
            f"h{0.84 * each:.1f}V{bottom:.1f}z"
            for n, f in enumerate(histogram.fractions)
            if f
        )
        told = html.escape(f"{name}: {histogram.told}")
        yield f'<path class="f" d="{bars}" {filled(CATEGORICAL[0])}><title>{told}</title></path>'
    yield f'<path class="k" d="M{left:.1f} {bottom:.1f}h{wide:.1f}" stroke-width="1" {stroked(SOFT)} opacity=".4"/>'
    most_letters = int(wide / 7.4)
    yield written(left + 4, top + 13, name if len(name) <= most_letters else f"…{name[1 - most_letters :]}", SOFT)


def _ticks(chart: Exponents, left: float, top: float, wide: float) -> Iterator[str]:
    count = chart.high - chart.low + 1
    every = next(step for step in (4, 8, 16, 32, 64, 128, 256) if count / step <= 6)
    for n in range(chart.low, chart.high + 1):
        if n % every == 0:
            yield written(left + wide * (n + 0.5 - chart.low) / count, top + 15, str(n), SOFT, "middle")
