"""The output of `numc run --stats`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from numc.compiler.cli import output
from numc.compiler.statistics import BITS, LayerStatistics, Statistics
from numc.compiler.support.files import write_whole

_TENSORS = ("a", "b", "result")
# Titles of columns for each tensor, and their counts.
_FRACTIONS = (
    ("subnormal", "subnormals"),
    ("subnormal after rounding", "rounded_subnormals"),
    ("flushed", "flushed"),
)


def print_statistics(found: Statistics) -> None:
    """Print a row for each contraction, and for other multiply-adds, then the numbers of operations."""
    columns = ["layer", "role", "fma", "FMAs"]
    if "swamping" in found.what:
        columns += [f"no swamping at {k} bits" for k in BITS]
        columns += [*(f"nonzero pairs at {k} bits" for k in BITS), "sampled"]
    if "exponents" in found.what:
        columns += [f"exponents of {name}" for name in _TENSORS]
    if "denormals" in found.what:
        columns += [f"{title}: {name}" for title, _ in _FRACTIONS for name in _TENSORS]
    if "rounding" in found.what:
        columns.append("relative error")
    rows = [_cells(row, found.what) for row in found.rows]
    for (role, fma), count in found.outside.items():
        rows.append(["outside of contractions", role or "-", fma, str(count), *["-"] * (len(columns) - 4)])
    output.table(columns, rows)
    for note in dict.fromkeys(note for row in found.rows for note in row.note.split("; ") if note):
        output.say(note)
    if "fmas" in found.what:
        shares = ", ".join(f"{share:.2%} {fma}" for fma, share in found.fma_mix().items())
        click.echo(f"FMAs: {shares or 'none'}")
        for name, count in found.instruction_mix().items():
            click.echo(f"{name}: {count}")


def _cells(row: LayerStatistics, what: tuple[str, ...]) -> list[str]:
    cells = [row.layer or "-", row.role or "-", row.fma, str(row.fmas)]
    if "swamping" in what:
        known = row.swamping is not None
        for nonzero in (False, True):
            cells += [f"{row.without_swamping(k, nonzero=nonzero):.2%}" if known else "-" for k in BITS]
        cells.append(f"{float(row.sampled):.4g}" if known else "-")
    if "exponents" in what:
        cells += [str(row.tensors[name].ranges_used) for name in _TENSORS]
    if "denormals" in what:
        cells += [f"{row.tensors[name].fraction(count):.2%}" for _, count in _FRACTIONS for name in _TENSORS]
    if "rounding" in what:
        cells.append("-" if row.relative_error is None else f"{row.relative_error:.3g}")
    return cells


def write_statistics(found: Statistics, path: str) -> None:
    """Write statistics as JSON, which `numc.Statistics.from_json` reads.

    Raises NumcError if the file cannot be written.
    """
    text = json.dumps(found.to_json(), allow_nan=False) + "\n"
    write_whole(Path(path), lambda file: file.write(text.encode()))
