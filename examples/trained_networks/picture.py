"""A picture of both sweeps: how much is right, by bits, with the 95 % interval of the difference to fp32 as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from formats import BASE, EXPONENTS, NEAREST, SIGNIFICANDS
from report import MEASURES, Rows, difference, right


def save(path: Path, rows: Mapping[str, Rows]) -> None:
    """Write the picture in the format of the suffix. Raises OSError, and ValueError for an unknown suffix."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    first, second = figure.subplots(1, 2, sharey=True)
    for number, (name, mine) in enumerate(rows.items()):
        color, title = f"C{number}", f"{name}: {MEASURES[name]}"
        _draw(first, mine, SIGNIFICANDS, range(7, 0, -1), color=color, label=title)
        nearest = [label for label in NEAREST if label.startswith("e8")]
        first.plot(range(5, 0, -1), [right(mine[label]) for label in nearest], "x--", color=color, markersize=4)
        _draw(second, mine, EXPONENTS, range(8, 1, -1), color=color)
    first.plot([], [], "x--", color="grey", markersize=4, label="left: operands rounded to nearest")
    for axes, title in ((first, "significand bits (8 exponent bits)"), (second, "exponent bits (7 significand bits)")):
        axes.invert_xaxis()
        axes.set_xlabel(title)
        axes.grid(color="#e4e4e4")
    first.set_ylabel("right (%)")
    second.legend(*first.get_legend_handles_labels(), fontsize=8, loc="lower left")
    figure.savefig(path, dpi=110)


def _draw(axes: Any, rows: Rows, labels: Sequence[str], bits: range, **style: Any) -> None:
    base = rows[BASE]
    low, high = np.transpose([difference(rows[label], base)[1:] for label in labels]) + right(base)
    axes.plot(bits, [right(rows[label]) for label in labels], "o-", markersize=4, **style)
    axes.fill_between(bits, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.axhline(right(base), color=style["color"], linestyle=":", linewidth=1)
