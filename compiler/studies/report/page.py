"""The HTML page of a report: the values that fill in its template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from numc.compiler.studies.metrics import METRICS
from numc.compiler.studies.report import charts
from numc.compiler.studies.report.charts import Chart, Exponents, Series
from numc.compiler.studies.report.colours import CATEGORICAL, INK, colour
from numc.compiler.studies.report.place import apart, aside, place_texts, short
from numc.compiler.studies.results import AGREES, BREAKS, ComparisonData, Result

HEIGHT = 300.0
WIDTHS = (230.0, 420.0, 860.0)  # in pixels, of the drawing area on a phone, a tablet and a wide window
CROWDED = 16
"""With more points, a line has no markers; with more layers, charts have no key and rows of histograms are low."""
KEEPS = 0.005
"""An arithmetic whose first metric is worse than that of fp32 by at most this much keeps it."""


def render(comparison: ComparisonData) -> str:
    """Return the page as text. It refers to no other file."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "size": size, "px": lambda x: f"{x:.1f}"}
    styles = "\n".join(f".c{n}{{--l:{light};--d:{dark}}}" for n, (light, dark) in enumerate(CATEGORICAL))
    styles += f"\n.ink{{--l:{INK[0]};--d:{INK[1]}}}"
    return environment.get_template("page.html.jinja").render(
        c=comparison,
        name=Path(comparison.model).name,
        metrics=[METRICS[name] for name in comparison.metrics],
        findings=findings(comparison),
        look={result.name: _look(comparison, result) for result in comparison.results},
        palette=styles,
        scatter=[drawn(chart, labels="points") for chart in _scatters(comparison)],
        layers=None if (by_layer := charts.layer_errors(comparison)) is None else drawn(by_layer, labels="ends"),
        layer_names=charts.layer_names(comparison),
        crowded=CROWDED,
        layer_rows=_layer_rows(comparison),
        swamping=[drawn(chart, labels="") for chart in charts.swamping(comparison)],
        exponents=[ridge(chart) for chart in charts.exponents(comparison)],
        notes=_notes(comparison),
        apart=[(r.name, ", ".join(r.apart)) for r in comparison.results if r.apart],
        tables=_tables(comparison),
        agrees=AGREES,
        breaks=BREAKS,
    )


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


@dataclass(frozen=True)
class Finding:
    """One of the main results: its subject, its value, and a sentence."""

    about: str
    answer: str
    text: str
    look: tuple[str, int] | None = None
    bad: bool = False


def keeps(comparison: ComparisonData, result: Result) -> bool:
    """Whether the first metric of an arithmetic is at most KEEPS worse than that of fp32."""
    metric = METRICS[comparison.metrics[0]]
    mine, fp32 = result.metrics[metric.name], comparison.results[0].metrics[metric.name]
    if metric.name == "mse" and comparison.labels != "values":
        return result.error <= KEEPS
    worse = fp32 - mine if metric.best == "max" else mine - fp32
    return worse <= KEEPS * (1.0 if metric.percent or metric.name == "cosine" else abs(fp32))


def findings(comparison: ComparisonData) -> list[Finding]:
    """Return the main results, which the page shows first."""
    name, others = comparison.metrics[0], comparison.results[1:]
    metric = METRICS[name]
    how = "0.5 points" if metric.percent else "0.005" if name == "cosine" else "0.5%"
    found = []
    good = [r for r in others if keeps(comparison, r)]
    if good:
        best = min(good, key=lambda r: (r.area, r.error))
        value, times = metric.text(best.metrics[name]), number(best.iso_area)
        text = f"{name} {value}: within {how} of fp32, with {times} times the FMAs in the area of fp32’s multipliers."
        found.append(Finding(f"Cheapest that keeps {name}", best.name, text, _look(comparison, best)))
    elif others:
        found.append(Finding(f"Cheapest that keeps {name}", "none", f"None is within {how} of fp32.", bad=True))
    finite = [r for r in others if math.isfinite(r.error)]
    if finite:
        best = min(finite, key=lambda r: r.error)
        text = f"Relative error {number(best.error, 2)} of the outputs, at {number(best.iso_area)} times the FMAs."
        found.append(Finding("Closest to fp32", best.name, text, _look(comparison, best)))
    broken = [(r, r.breaks) for r in others if r.breaks is not None]
    if broken:
        result, layer = min(broken, key=lambda pair: (pair[1].position, -pair[1].error))
        rest = f", {len(broken) - 1} more later" if len(broken) > 1 else ""
        text = f"{result.name} has a relative error of {number(layer.error, 2)} there{rest}."
        found.append(Finding("Breaks first", layer.name or f"contraction {layer.position}", text,
                             _look(comparison, result)))  # fmt: skip
    elif others:
        found.append(Finding("Breaks first", "no layer", f"All relative errors of layers are at most {BREAKS:g}."))
    peer = comparison.onnxruntime
    if peer is not None and not peer.note:
        sign = "≤" if peer.holds else ">"
        text = (f"Relative error {number(peer.error, 2)} {sign} {number(AGREES, 2)}, largest difference "
                f"{number(peer.largest, 2)}, version {peer.version}.")  # fmt: skip
        answer = "agrees" if peer.holds else "differs"
        found.append(Finding("fp32 against onnxruntime", answer, text, bad=not peer.holds))
    else:
        why = peer.note if peer is not None else "onnxruntime is not installed, or the model is not an ONNX file."
        found.append(Finding("fp32 against onnxruntime", "not checked", why))
    return found


def _look(comparison: ComparisonData, result: Result) -> tuple[str, int]:
    return charts.colour_of(comparison, result)


def _scatters(comparison: ComparisonData) -> list[Chart]:
    found = [charts.accuracy(comparison)]
    if len(comparison.results) > 1:
        found.append(charts.error(comparison))
    return found


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
        "path": _path(places) if one.line else "",
    }


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


def _layer_rows(comparison: ComparisonData) -> list[dict[str, Any]]:
    found = []
    for n, name in enumerate(charts.layer_names(comparison)):
        cells = []
        for result in comparison.results[1:]:
            error = next((layer.error for layer in result.layers if layer.position == n), None)
            # From an error of 10^-10, without tint, to 1, the full tint.
            tint = 0.0
            if error is not None and error > 0:
                tint = min(1.0, max(0.0, 1 + math.log10(error) / 10)) if math.isfinite(error) else 1.0
            is_broken = error is not None and not error <= BREAKS
            cells.append({"error": error, "tint": 1.0 if error != error else tint, "broken": is_broken})
        found.append({"position": n, "name": name, "cells": cells})
    return found


def _notes(comparison: ComparisonData) -> list[str]:
    """Return the reasons why statistics of some layers are missing."""
    found: list[str] = []
    for result in comparison.results:
        rows = result.statistics.rows if result.statistics is not None else ()
        for note in dict.fromkeys(row.note for row in rows if row.note):
            layers = [row.layer for row in rows if row.note == note]
            where = (
                "all layers" if len(layers) == len(rows) else ", ".join(layers[:4]) + ("…" if len(layers) > 4 else "")
            )
            found.append(f"{result.name}, {where}: {note}")
    return found


def _tables(comparison: ComparisonData) -> dict[str, Any]:
    """Return the table of the contractions, with their operators under policies that use several operators."""
    rows = [{**row, "fmas": math.prod(row[size] or 1 for size in "bmnk")} for row in comparison.results[0].table]
    total = sum(row["fmas"] for row in rows) or 1
    plain = [r for r in comparison.results if _is_plain(r)]
    mixed = [r for r in comparison.results if not _is_plain(r)]
    operators = [[row["fma"] for row in r.table if row["position"] is not None] for r in mixed]
    return {
        "rows": [{**row, "share": row["fmas"] / total} for row in rows],
        "plain": [(r.name, r.operators[0] if r.operators else r.name) for r in plain],
        "mixed": [
            {"name": r.name, "text": r.policy, "rows": r.table, "fmas": fmas}
            for r, fmas in zip(mixed, operators, strict=True)
        ],
    }


def _is_plain(result: Result) -> bool:
    return len(result.policy.splitlines()) == 1 and result.policy.startswith("default ")
