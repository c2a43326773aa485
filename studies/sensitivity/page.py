"""The HTML page of a sensitivity: the values that fill in its template."""

from __future__ import annotations

import math
from pathlib import Path

from numc.studies.metrics import METRICS
from numc.studies.report.charts import Chart
from numc.studies.report.drawing import drawn, environment
from numc.studies.sensitivity.charts import BY_LAYER, charts
from numc.studies.sensitivity.records import Part, SensitivityData


def render(found: SensitivityData) -> str:
    """Return the page as text. It refers to no other file."""
    drawings = [chart for chart in charts(found) if isinstance(chart, Chart)]
    layers = found.of("layer")
    names = [part.name for part in layers]
    return (
        environment(Path(__file__).parent)
        .get_template("sensitivity.html.jinja")
        .render(
            s=found,
            name=Path(found.model).name,
            metrics=[METRICS[name] for name in found.metrics],
            charts=[(drawn(chart, ""), names if chart.x.label == BY_LAYER else []) for chart in drawings],
            worst=max(layers, key=lambda part: (math.isnan(part.error), part.error)),
            rows=[(part, layers.index(part) if part in layers else None, tint(part)) for part in found.parts],
        )
    )


def tint(part: Part) -> float:
    """Return how strongly an error is coloured: not from 10^-10 down, fully at 1."""
    if math.isnan(part.error):
        return 1.0
    if part.error <= 0:
        return 0.0
    return min(1.0, max(0.0, 1 + math.log10(part.error) / 10)) if math.isfinite(part.error) else 1.0
