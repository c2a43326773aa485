"""Print rows as a table on a terminal and as tab-separated lines elsewhere, and draw them as a picture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from significand_search import Found
from sweeps import Row
from weight_widths import Bin

Lines = list[list[str]]


def sweep(rows: Sequence[Row]) -> Lines:
    """The columns and the lines of a sweep."""
    accumulators = list(rows[0].results)
    columns = ["model", "format"]
    columns += [f"{what}, acc {name}" for name in accumulators for what in ("accuracy", "error", "NaN")]
    with_published = any(row.published is not None for row in rows)
    lines = [columns + ["published"] * with_published]
    for row in rows:
        line = [row.model, row.format]
        for result in row.results.values():
            error = "-" if result.relative_error is None else f"{result.relative_error:.1e}"
            line += [f"{result.accuracy:.2%}", error, str(result.nan)]
        if with_published:
            line.append("-" if row.published is None else f"{row.published:.2%}")
        lines.append(line)
    return lines


def layer_table(found: Found) -> Lines:
    """The columns and the lines of the layers."""
    return [["layer", "FMAs", "bits"], *([layer.name, str(layer.fmas), str(layer.bits)] for layer in found.layers)]


def stage_table(found: Found) -> Lines:
    """The columns and the lines of the arithmetics of the search."""
    lines = [["arithmetic", "accuracy, searched", "accuracy, rest", "bits", "iso-area"]]
    for stage in found.stages:
        shares = (f"{stage.searched:.2%}", f"{stage.rest:.2%}")
        lines.append([stage.arithmetic, *shares, f"{stage.bits:.2f}", f"{stage.iso_area:.1f}"])
    return lines


def widths(bins: Sequence[Bin]) -> Lines:
    """The columns and the lines of the bits that weights need."""
    lines = [["model", "part", "bits", "weights", "share", "published"]]
    for one in bins:
        known = "-" if one.published is None else f"{one.published:.1%}"
        lines.append([one.model, one.part, str(one.bits), str(one.weights), f"{one.share:.1%}", known])
    return lines


def table(lines: Lines, title: str, before: str = "") -> None:
    """Print a table. before: the beginning of each line if the output is no terminal."""
    if not sys.stdout.isatty():
        print("\n".join(before + "\t".join(line) for line in lines))
        return
    drawn = Table(title=title)
    for number, column in enumerate(lines[0]):
        text = any(line[number][0].isalpha() for line in lines[1:])
        drawn.add_column(column, justify="left" if text else "right")
    for line in lines[1:]:
        drawn.add_row(*line)
    Console().print(drawn)


def draw_sweep(axes: Any, rows: Sequence[Row]) -> None:
    """Draw the accuracy over the formats: a line for each accumulator, dashes for published values."""
    for number, model in enumerate(dict.fromkeys(row.model for row in rows)):
        mine = [row for row in rows if row.model == model]
        for accumulator, mark in zip(mine[0].results, ("o-", "s:"), strict=False):
            label = f"{model}, acc {accumulator}"
            accuracy = [100 * row.results[accumulator].accuracy for row in mine]
            axes.plot([row.format for row in mine], accuracy, mark, color=f"C{number}", label=label, markersize=4)
        known = [(row.format, 100 * row.published) for row in mine if row.published is not None]
        if known:
            axes.plot(*zip(*known, strict=True), "x--", color=f"C{number}", alpha=0.5, label=f"{model}, published")
    axes.set_ylabel("accuracy (%)")
    axes.legend(fontsize=8)


def draw_layers(axes: Any, found: Found) -> None:
    """Draw the bits of each layer, and as a line the bits that all layers together need."""
    axes.bar([layer.name for layer in found.layers], [layer.bits for layer in found.layers])
    uniform = found.stages[1].bits
    axes.axhline(uniform, color="C1", linestyle="--", label="the same for all layers")
    axes.set_ylim(0, uniform * 1.2)
    axes.set_ylabel("significand bits")
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
