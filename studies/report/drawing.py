"""The common parts of the pages of all reports: their template's environment, numbers as texts, charts as drawings."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from numc.studies.report.charts import Chart, Exponents
from numc.studies.report.colours import CATEGORICAL, INK, colour
from numc.studies.report.histograms_svg import histograms
from numc.studies.report.live_page import SILENCE
from numc.studies.report.svg import SHAPES, Drawing

HEIGHT = 300.0
FEW = 16
"""With more layers, charts have no key and rows of histograms are low."""


def environment(*folders: Path) -> Environment:
    """Return the environment of a page's template, which is in one of `folders` or in this one."""
    jinja_environment = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    styles = "\n".join(f".c{n}{{--l:{light};--d:{dark}}}" for n, (light, dark) in enumerate(CATEGORICAL))
    styles += f"\n.ink{{--l:{INK[0]};--d:{INK[1]}}}"
    jinja_environment.globals |= {
        "live": "",
        "now": lambda: round(time.time()),
        "silence": SILENCE,
        "crowded": FEW,
        "palette": styles,
        "shapes": SHAPES,
        "looks": looks,
    }
    jinja_environment.filters |= {"number": number, "percent": percent, "size": size, "px": lambda x: f"{x:.1f}"}
    return jinja_environment


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
    """Return a number of bytes as text with a unit, which stays on its line."""
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g}\u00a0{unit}"
        value /= 1000
    return f"{value:.3g}\u00a0GB"


def drawn(chart: Chart, labels: str, height: float = HEIGHT) -> Drawing:
    """Return the drawing of a chart, see Drawing."""
    return Drawing(chart, labels, height)


def looks(chart: Chart) -> list[dict[str, str]]:
    """Return the labels and the colours of the series of a chart, for a key."""
    return [
        {"label": series.label, "light": light, "dark": dark}
        for series in chart.series
        for light, dark in [colour(series.colour)]
    ]


def ridge(chart: Exponents) -> dict[str, Any]:
    """Return histograms drawn side by side for a wide page, and one column below the other for a phone."""
    formats, columns = [], []
    for column, title in enumerate(chart.columns):
        names = {h[column].format for _, h in chart.rows if h[column] is not None}  # type: ignore[union-attr]
        formats.append(f"{title}: {', '.join(sorted(names)) or '–'}")
        rows = tuple((name, (cells[column],)) for name, cells in chart.rows)
        columns.append(histograms(replace(chart, columns=(title,), rows=rows), 330))
    drawing = histograms(chart, 990)
    return {"title": chart.title, "open": chart.open, "formats": formats, "broad": drawing, "narrow": columns}
