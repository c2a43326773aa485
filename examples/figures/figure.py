"""The parts that all figures share: command line, table and picture."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Rows = Sequence[Mapping[str, Any]]


Draw = Callable[[Any, Rows], None]


def main(about: str, name: str, measure: Callable[[bool], Rows], draw: Draw) -> int:
    """Measure, print a table, write NAME.png. Returns the exit status, 2 if matplotlib is missing.

    measure: called with whether to be quick, returns the rows. draw: called with the axes and the rows.
    """
    return run(name, parser(about, name).parse_args(), measure, draw)


def parser(about: str, name: str) -> argparse.ArgumentParser:
    """Return the options that all figures have."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--quick", action="store_true", help="small sizes: seconds, and other numbers")
    found.add_argument("--output", type=Path, default=Path(f"{name}.png"), metavar="FILE", help="the picture")
    found.add_argument("--json", action="store_true", help="print the rows as JSON")
    return found


def run(name: str, args: argparse.Namespace, measure: Callable[[bool], Rows], draw: Draw) -> int:
    """Do what `main` does, with options that are parsed."""
    if importlib.util.find_spec("matplotlib") is None:
        print(f"{name}.py: matplotlib is not installed: pip install matplotlib", file=sys.stderr)
        return 2
    rows = measure(args.quick)
    if args.json:
        print(json.dumps(list(rows), indent=1))
    else:
        show(rows)
    save(args.output, lambda axes: draw(axes, rows))
    return 0


def show(rows: Rows) -> None:
    """Print a table, in full width: cells that are shortened to fit a terminal lose digits."""
    table = Table()
    for heading, value in rows[0].items():
        table.add_column(heading, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(width=1000).print(table)


def save(path: Path, draw: Callable[[Any], None]) -> None:
    """Write one picture."""
    import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

    mpl.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.grid(color="#e4e4e4")
    axes.set_axisbelow(True)
    draw(axes)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
