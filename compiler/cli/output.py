"""Output of commands: tables, JSON and progress, decorated for terminals and as plain text for pipes."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from numc.compiler.support.errors import escaped
from numc.compiler.support.files import write_whole
from numc.compiler.support.json_values import json_values


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
