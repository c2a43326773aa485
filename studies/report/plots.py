"""The charts of a report as PNG and SVG files, drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from numc.studies.report.charts import Axis, Band, Chart, Exponents, Series
from numc.studies.report.colours import INK, colour
from numc.studies.report.place import apart, place_texts
from numc.support.errors import NumcError
from numc.support.files import write_whole

SHAPES = ("o", "o", "s", "^", "D", "v")
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#dfe4ea",
    "axes.labelcolor": "#566173",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dfe4ea",
    "xtick.color": "#566173",
    "ytick.color": "#566173",
    "text.color": INK[0],
    "font.size": 9,
    "svg.fonttype": "none",
}
_WIDE, _HIGH = 6.4, 3.8
_CROWDED = 40
"""A line with more points has no markers."""


def draw(charts: Iterable[Chart | Exponents], folder: Path) -> list[Path]:
    """Write each chart as NAME.png and NAME.svg into `folder`, which is created, and return the files.

    Raises NumcError if a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NumcError(f"{folder}: cannot be made: {error.strerror or error}: name another folder for plots") from None
    written: list[Path] = []
    with mpl.rc_context(STYLE):
        for chart in charts:
            figure = _exponents(chart) if isinstance(chart, Exponents) else _chart(chart)
            for kind in ("png", "svg"):
                data = image(figure, kind)
                path = folder / f"{chart.name}.{kind}"
                write_whole(path, lambda file, data=data: file.write(data))  # type: ignore[misc]
                written.append(path)
    return written


def image(figure: Figure, kind: str) -> bytes:
    """Return a figure as a file of a kind, ``png`` or ``svg``: the same bytes for the same figure."""
    data = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    figure.savefig(data, format=kind, dpi=150, metadata=metadata)
    return data.getvalue()


def _chart(chart: Chart) -> Figure:
    figure = Figure(figsize=(_WIDE, _HIGH), layout="constrained")
    heights = [20, *(1 for _ in chart.bands)]
    axes, *strips = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    names: dict[str, Any] = {}
    for strip, band in zip(strips, chart.bands, strict=True):
        names |= _strip(strip, chart, band)
    if names:
        figure.legend(names.values(), names, loc="outside lower left", ncols=4, frameon=False, fontsize=8)
    axes.set_title(chart.title)
    for set_scale, set_limits, set_ticks, set_label, axis in (
        (axes.set_xscale, axes.set_xlim, axes.set_xticks, axes.set_xlabel, chart.x),
        (axes.set_yscale, axes.set_ylim, axes.set_yticks, axes.set_ylabel, chart.y),
    ):
        if axis.log:
            set_scale("log")
        set_limits(axis.low, axis.high)
        set_ticks([value for value, _ in axis.ticks], [text for _, text in axis.ticks])
        set_label(f"{axis.label} ({axis.better} is better)" if axis.better else axis.label)
    axes.minorticks_off()
    axes.tick_params(length=0)
    if chart.guide:
        axes.plot(*zip(*chart.guide, strict=True), ":", color="#566173", linewidth=1.2, zorder=1)
    for rule in chart.rules:
        line = axes.axvline if rule.axis == "x" else axes.axhline
        line(rule.value, color="#566173", linestyle="--", linewidth=1)
        if rule.axis == "x":
            x, y, transform = rule.value, 0.02, axes.get_xaxis_transform()
        else:
            x, y, transform = 0.99, rule.value, axes.get_yaxis_transform()
        across = "left" if rule.axis == "x" and chart.x.place(rule.value) < 0.5 else "right"
        axes.text(x, y, f" {rule.label} ", transform=transform, color="#566173", fontsize=8, ha=across, va="bottom")
    for one in chart.series:
        shown = [(x, _shown(chart.y, y)) for x, y in one.points]
        marker = "" if one.colour[0] == "q" or len(shown) > _CROWDED else SHAPES[one.shape % 6]
        axes.plot(*zip(*shown, strict=True), "-" if one.line else "", marker=marker, color=colour(one.colour)[0],
                  markersize=5, linewidth=0.5 if one.faint else 1.6, alpha=0.4 if one.faint else 1, clip_on=False,
                  zorder=3)  # fmt: skip
    width, height = 72 * _WIDE * 0.85, 72 * _HIGH * 0.8  # the drawing area in points, roughly
    for one, x, y, dx, dy in _texts(chart, width, height):
        axes.annotate(one.label, (x, _shown(chart.y, y)), (dx, dy), textcoords="offset points",
                      color=colour(one.colour)[0], fontsize=8, ha="left" if dx > 0 else "right", va="center",
                      annotation_clip=False)  # fmt: skip
    return figure


def _strip(axes: Any, chart: Chart, band: Band) -> dict[str, Any]:
    """Draw what is used over x. Return something in its colour for each name."""
    found = {}
    for name, given, boxes in band.parts:
        corners = [((x0, 1 - y0), (x1, 1 - y0), (x1, 1 - y1), (x0, 1 - y1)) for x0, x1, y0, y1 in boxes]
        found[name] = axes.add_collection(PolyCollection(corners, facecolors=colour(given)[0], linewidths=0))
    axes.set_xlim(chart.x.low, chart.x.high)
    axes.set_ylim(0, 1)
    axes.set_axis_off()
    if band.colour:
        axes.annotate(band.label, (1, 0.5), (4, 0), xycoords="axes fraction", textcoords="offset points", fontsize=7,
                      color=colour(band.colour)[0], va="center", annotation_clip=False)  # fmt: skip
    return found


def _texts(chart: Chart, width: float, height: float) -> Iterator[tuple[Series, float, float, float, float]]:
    """Yield the text of each series: its point, and the distance from it in points, y upwards."""
    if any(one.line for one in chart.series):
        lines = [one for one in chart.series if one.line and not one.faint]
        ends = [height * chart.y.place(one.points[-1][1]) for one in lines]
        for one, end, to in zip(lines, ends, apart(ends, 0, height, 10), strict=True):
            yield one, *one.points[-1], 8, to - end
        return
    points = [(chart.x.place(x), 1 - chart.y.place(y)) for one in chart.series for x, y in one.points]
    for group in place_texts(points, [one.label for one in chart.series], (width,), height):
        for number, n in enumerate(group.members):
            one = chart.series[n]
            yield one, *one.points[0], group.dx, 11 * ((len(group.members) - 1) / 2 - number) - group.dy


def _shown(axis: Axis, value: float) -> float:
    """Return a value, or the end of the axis if the value is beyond it."""
    place = axis.place(value)
    return axis.low if place <= 0 else axis.high if place >= 1 else value


def _exponents(chart: Exponents) -> Figure:
    rows = max(1, len(chart.rows))
    figure = Figure(figsize=(9, 0.8 + 0.6 * rows), layout="constrained")
    figure.suptitle(chart.title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    grid = figure.subplots(rows, len(chart.columns), sharex=True, squeeze=False)
    for (name, histograms), line in zip(chart.rows, grid, strict=True):
        for column, (histogram, axes) in enumerate(zip(histograms, line, strict=True)):
            axes.set_yticks([])
            axes.set_xlim(chart.low - 0.5, chart.high + 0.5)
            axes.tick_params(length=0)
            axes.grid(False)
            axes.set_title(name if column == 0 else "", fontsize=7, fontweight="normal", pad=2)
            if histogram is None:
                continue
            if histogram.inside is not None:
                low, high = histogram.inside
                axes.axvspan(low - 0.5, high + 0.5, color="#e3edf7", linewidth=0)
                below = low - histogram.below
                axes.axvspan(below - 0.5, low - 0.5, facecolor="none", edgecolor="#c5d6e8", hatch="////", linewidth=0)
            axes.bar([histogram.low + n for n in range(len(histogram.fractions))], histogram.fractions, 0.84,
                     color="#0b62b8")  # fmt: skip
    for axes, title in zip(grid[-1], chart.columns, strict=True):
        axes.set_xlabel(f"{title}: exponent")
    return figure
