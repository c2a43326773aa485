"""Print rows as a table on a terminal and as tab-separated lines elsewhere, and draw them as a picture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import published
from cells import difference, markdown, spread
from rich.console import Console
from rich.table import Table
from sweeps import ORDERS, Bin, Row, Runs, accuracies

Lines = list[list[str]]


def sweep(rows: Sequence[Row]) -> Lines:
    """The columns and the lines of a sweep."""
    lines = [["model", "widths", "published", "accuracy (%)", "minus fp32", "error"]]
    for row in rows:
        error = "-" if row.error is None else f"{row.error:.1e}"
        accuracy, lost = spread(row.accuracy, ".2f"), difference(row.accuracy, row.fp32, ".2f")
        lines.append([row.model, row.widths, f"{row.published:.2f}", accuracy, lost, error])
    return lines


def orders(runs: Runs) -> str:
    """The differences of the thesis' conclusions about layers, as the page has them."""
    lines = [["model", "widths", "minus those of", "published", "here"]]
    for model, outcomes in runs.items():
        percent = published.PERCENT["layers"][model]
        for better, worse in ORDERS[model]:
            here = difference(*(accuracies(outcomes, label) for label in (better, worse)), ".2f")
            lines.append([model, f"`{better}`", f"`{worse}`", f"{percent[better] - percent[worse]:+.2f}", here])
    return markdown(lines, texts=3)


def widths(bins: Sequence[Bin]) -> Lines:
    """The columns and the lines of the bits that weights need."""
    lines = [["model", "part", "bits", "share", "published"]]
    for one in bins:
        known = "-" if one.published is None else f"{one.published:.1%}"
        lines.append([one.model, one.part, str(one.bits), f"{one.share:.1%}", known])
    return lines


def page(rows: Sequence[Row]) -> str:
    """The table of a sweep as the page has it."""
    head, *lines = sweep(rows)
    return markdown([head, *([model, f"`{label}`", *cells] for model, label, *cells in lines)], texts=2)


def table(lines: Lines, title: str) -> None:
    """Print a table."""
    if not sys.stdout.isatty():
        print("\n".join("\t".join(line) for line in lines))
        return
    drawn = Table(title=title)
    for number, column in enumerate(lines[0]):
        text = any(line[number][0].isalpha() for line in lines[1:])
        drawn.add_column(column, justify="left" if text else "right")
    for line in lines[1:]:
        drawn.add_row(*line)
    Console().print(drawn)


def draw_sweep(axes: Any, rows: Sequence[Row]) -> None:
    """Draw the accuracy over the widths: a line for each model, dashes for published values."""
    for number, model in enumerate(dict.fromkeys(row.model for row in rows)):
        mine = [row for row in rows if row.model == model]
        widths = [row.widths for row in mine]
        values = np.array([row.accuracy for row in mine])
        axes.plot(widths, values.mean(1), "o-", color=f"C{number}", label=model, markersize=4)
        axes.fill_between(widths, values.min(1), values.max(1), color=f"C{number}", alpha=0.15, linewidth=0)
        known = [row.published for row in mine]
        axes.plot(widths, known, "x--", color=f"C{number}", alpha=0.5, label=f"{model}, published")
    axes.set_ylabel("accuracy (%)")
    axes.legend(fontsize=8)


def draw_widths(axes: Any, bins: Sequence[Bin]) -> None:
    """Draw the share of weights over the bits of the significand and of the exponent, a line for each model."""
    for number, model in enumerate(dict.fromkeys(one.model for one in bins)):
        for part, mark in (("significand", "o-"), ("exponent", "s:")):
            mine = [one for one in bins if (one.model, one.part) == (model, part)]
            shares = [100 * one.share for one in mine]
            axes.plot([one.bits for one in mine], shares, mark, color=f"C{number}", label=f"{model}, {part}")
    axes.set_xlabel("bits")
    axes.set_ylabel("weights (%)")
    axes.legend(fontsize=8)


def save(path: Path, title: str, draw: Callable[[Any], None]) -> None:
    """Write a picture in the format of its suffix. Raises OSError, and ValueError for an unknown suffix."""
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.grid(color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize=10)
    draw(axes)
    try:
        figure.savefig(path, dpi=110)
    finally:
        pyplot.close(figure)
