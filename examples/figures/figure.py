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
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: seconds, and other numbers")
    parser.add_argument("--output", type=Path, default=Path(f"{name}.png"), metavar="FILE", help="the picture")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    args = parser.parse_args()
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
    """Print a table."""
    table = Table()
    for heading, value in rows[0].items():
        table.add_column(heading, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console().print(table)


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
