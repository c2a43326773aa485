"""Output of commands: tables, statistics, JSON and progress, decorated for terminals and as plain text for pipes."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from numc.compiler.arrays.statistics import BITS, LayerStatistics, Statistics
from numc.support.errors import escaped, shortened
from numc.support.files import write_whole
from numc.support.json_values import json_values
from numc.support.progress import told

_TENSORS = ("a", "b", "result")
# Titles of columns for each tensor, and their counts.
_FRACTIONS = (
    ("subnormal", "subnormals"),
    ("subnormal after rounding", "rounded_subnormals"),
    ("flushed", "flushed"),
)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows: as a drawn table on a terminal, otherwise as tab-separated lines with a line of column names."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo("\t".join(escaped(str(cell).replace("\t", "\\t")) for cell in row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for n, column in enumerate(columns):
        # Long texts are folded, but words are not shortened: a shortened number would be a wrong one.
        words = " ".join([column, *(str(row[n]) for row in rows)]).split()
        drawn.add_column(column, overflow="fold", min_width=min(20, max(map(len, words))))
    for row in rows:
        drawn.add_row(*(Text(escaped(value)) for value in row))
    Console().print(drawn)


def say(text: str, *, err: bool = False) -> None:
    """Print one line, in which names of files and layers cannot control the terminal."""
    click.echo(escaped(text), err=err)


def as_json(value: Any) -> None:
    """Print one JSON document. Floats that JSON does not have become the strings "nan", "inf" and "-inf"."""
    click.echo(json.dumps(json_values(value), indent=2, ensure_ascii=False, allow_nan=False))


@contextlib.contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on stderr, if it is a terminal, what is being done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None] | None]:
    """Show what is being done and a progress bar on stderr, if it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda what, done: bar.update(task, completed=done, description=what)


@contextlib.contextmanager
def compiling(model: str) -> Iterator[None]:
    """Show on stderr, if it is a terminal, that a model is compiled: a bar that names the pass or the layer."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    with Progress(BarColumn(20), TimeElapsedColumn(), text, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(begin := f"compiling {shortened(Path(model).name)}", total=None)

        def show(what: str, item: str, done: int, total: int) -> None:
            bar.update(task, description=f"{begin}: {what} {shortened(item)}", completed=done, total=total)

        with told(show):
            yield


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function of (done, total) that draws a progress bar on stderr, or None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def write_text(path: str, text: str) -> None:
    """Write text to a file, or to stdout if `path` is "-"."""
    if path == "-":
        click.echo(text, nl=not text.endswith("\n"))
        return
    write_whole(Path(path), lambda file: file.write(text.encode()))


def dims(shape: Sequence[int | None]) -> str:
    """Return a shape as text, for example ``?x64``, or ``scalar``."""
    return "x".join("?" if d is None else str(d) for d in shape) or "scalar"


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
    table(columns, rows)
    for note in dict.fromkeys(note for row in found.rows for note in row.note.split("; ") if note):
        say(note)
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
