"""What the HTML pages of all reports share: their template's environment, numbers as texts, and charts as positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from numc.studies.report.charts import Band, Chart, Exponents, Series
from numc.studies.report.colours import CATEGORICAL, INK, colour
from numc.studies.report.place import apart, aside, place_texts, short

HEIGHT = 300.0
WIDTHS = (230.0, 420.0, 860.0)  # in pixels, of the drawing area on a phone, a tablet and a wide window
CROWDED = 16
"""With more points, a line has no markers; with more layers, charts have no key and rows of histograms are low."""


def environment(*folders: Path) -> Environment:
    """Return the environment of a page's template, which is in one of `folders` or in this one."""
    found = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    styles = "\n".join(f".c{n}{{--l:{light};--d:{dark}}}" for n, (light, dark) in enumerate(CATEGORICAL))
    styles += f"\n.ink{{--l:{INK[0]};--d:{INK[1]}}}"
    found.globals |= {"crowded": CROWDED, "palette": styles}
    found.filters |= {"number": number, "percent": percent, "size": size, "px": lambda x: f"{x:.1f}"}
    return found


def number(value: float, digits: int = 3) -> str:
    """Return a number as text: 0, 0.0123, 1.2e−7, ∞."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}".replace(
        "-", "−"
    )  # unlike a hyphen, lines do not break at it


def percent(value: float) -> str:
    """Return a fraction as a percentage with two digits after the point."""
    return "NaN" if math.isnan(value) else f"{100 * value:.2f}%"


def size(value: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def drawn(chart: Chart, labels: str, height: float = HEIGHT) -> dict[str, Any]:
    """Return the positions of everything in a chart: x and y from 0 to 1 (y downwards), and texts in pixels.

    labels: "points" if each point has its text beside it, "ends" if each line has its text at its end, "" for no texts.
    """
    series = [_series(chart, one) for one in chart.series]
    crowded = any(len(one["points"]) > CROWDED for one in series)
    for n, one in enumerate(series):  # a line on top of others is dashed, so that they stay visible
        one["gaps"] = sum(_covers(one, other, height) for other in series[:n])
    texts = _beside(series, height) if labels == "points" else []
    ends: list[dict[str, Any]] = []
    if labels == "ends":
        ends = [{"at": one["points"][-1]["y"] * height, **one} for one in series if one["points"]]
        for end, place in zip(ends, apart([end["at"] for end in ends], 7, height - 7), strict=True):
            end["text"], end["to"] = short(end["label"], 17), place
    return {
        "title": chart.title,
        "x": chart.x,
        "y": chart.y,
        "height": height,
        "xticks": [(chart.x.place(v), text) for v, text in chart.x.ticks],
        "yticks": [(1 - chart.y.place(v), text) for v, text in chart.y.ticks],
        "series": series,
        "ends": ends,
        "texts": texts,
        "crowded": crowded,
        "gutter": 11 + 7 * max([len(text) for _, text in chart.y.ticks], default=3),
        "rules": [
            {"axis": r.axis, "at": chart.x.place(r.value) if r.axis == "x" else 1 - chart.y.place(r.value),
             "label": r.label}
            for r in chart.rules
        ],
        "guide": _path([(chart.x.place(x), 1 - chart.y.place(y)) for x, y in chart.guide]),
        "bands": [_band(chart, band) for band in chart.bands],
    }  # fmt: skip


def _covers(one: dict[str, Any], other: dict[str, Any], height: float) -> bool:
    pairs = list(zip(one["points"], other["points"], strict=False))
    near = sum(abs(a["y"] - b["y"]) * height < 2 and a["x"] == b["x"] and 0 < a["y"] < 1 for a, b in pairs)
    return len(pairs) > 1 and 2 * near >= len(pairs)


def _beside(series: Sequence[dict[str, Any]], height: float) -> list[dict[str, Any]]:
    """Move points of the same place apart, and return the texts of each such group."""
    places = [(one["points"][0]["x"], one["points"][0]["y"]) for one in series]
    found = place_texts(places, [one["label"] for one in series], WIDTHS, height)
    for group in found:
        for number, n in enumerate(group.members):
            series[n]["points"][0]["aside"] = aside(number, len(group.members))
    return [
        {
            "x": places[group.members[0]][0],
            "y": places[group.members[0]][1],
            "dx": group.dx,
            "dy": group.dy,
            "anchor": "start" if group.dx > 0 else "end",
            "lines": [{**series[n], "text": short(series[n]["label"])} for n in group.members],
        }
        for group in found
    ]


def _series(chart: Chart, one: Series) -> dict[str, Any]:
    places = [(chart.x.place(x), 1 - chart.y.place(y)) for x, y in one.points]
    told = one.told if len(one.told) == len(places) else one.told * len(places)
    points = [
        {"x": x, "y": y, "told": text, "mark": n in one.marks, "aside": 0.0}
        for n, ((x, y), text) in enumerate(zip(places, told, strict=True))
    ]
    light, dark = colour(one.colour)
    return {
        "label": one.label,
        "light": light,
        "dark": dark,
        "shape": one.shape,
        "points": points,
        "faint": one.faint,
        "path": _path(places) if one.line else "",
    }


def _band(chart: Chart, band: Band) -> dict[str, Any]:
    """Return a path for each name, in a box that is 1000 wide and 100 high."""
    parts = []
    for name, given, boxes in band.parts:
        light, dark = colour(given)
        path = ""
        for x0, x1, y0, y1 in boxes:
            left, right = 1000 * chart.x.place(x0), 1000 * chart.x.place(x1)
            path += f"M{left:.1f},{100 * y0:.0f}H{right:.1f}V{100 * y1:.0f}H{left:.1f}z"
        parts.append({"name": name, "light": light, "dark": dark, "path": path})
    light, dark = colour(band.colour) if band.colour else ("", "")
    return {"label": band.label, "light": light, "dark": dark, "parts": parts}


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{1000 * x:.1f},{1000 * y:.1f}" for x, y in points)


def ridge(chart: Exponents) -> dict[str, Any]:
    """Return rows of histograms: bars as one path in a box that is 100 high and one unit wide for each exponent."""
    width = chart.high - chart.low + 1
    every = next(step for step in (4, 8, 16, 32, 64, 128, 256) if width / step <= 6)
    ticks = [n for n in range(chart.low, chart.high + 1) if n % every == 0]
    rows = []
    for name, histograms in chart.rows:
        cells: list[dict[str, Any] | None] = []
        for histogram in histograms:
            if histogram is None:
                cells.append(None)
                continue
            top = max(histogram.fractions, default=1.0) or 1.0
            bars = "".join(
                f"M{histogram.low + n - chart.low + 0.08:.2f},100v-{max(100 * f / top, 1.5):.1f}h.84V100z"
                for n, f in enumerate(histogram.fractions)
                if f
            )
            low = high = None
            if histogram.inside is not None:
                low = min(max(histogram.inside[0] - chart.low, 0), width) / width
                high = min(max(histogram.inside[1] + 1 - chart.low, 0), width) / width
            below = None if low is None else max(0.0, low - histogram.below / width)
            cells.append({"bars": bars, "low": low, "high": high, "below": below, "told": histogram.told})
        rows.append({"name": name, "cells": cells})
    formats: list[str] = []
    for column in range(len(chart.columns)):
        names = {h[column].format for _, h in chart.rows if h[column] is not None}  # type: ignore[union-attr]
        formats.append(", ".join(sorted(names)))
    return {
        "title": chart.title,
        "open": chart.open,
        "width": width,
        "ticks": [((n + 0.5 - chart.low) / width, n) for n in ticks],
        "columns": list(zip(chart.columns, formats, strict=True)),
        "rows": rows,
    }
