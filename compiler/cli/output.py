"""What commands print: tables, JSON and progress. Decoration goes to terminals only; pipes get plain text."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import click

from numc.compiler.errors import NumcError


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows: a drawn table on a terminal, otherwise tab-separated lines under a line of column names."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo("\t".join(map(str, row)))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for n, column in enumerate(columns):
        # Names and numbers stay whole: a shortened number would be a wrong one. Long texts fold.
        words = " ".join([column, *(str(row[n]) for row in rows)]).split()
        drawn.add_column(column, overflow="fold", min_width=min(20, max(map(len, words))))
    for row in rows:
        drawn.add_row(*(Text(str(value)) for value in row))
    Console().print(drawn)


def as_json(value: Any) -> None:
    """Print one JSON document. Floats that JSON lacks become the strings "nan", "inf" and "-inf"."""
    click.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on stderr, if it is a terminal, that something is going on."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function of (done, total) that draws a bar on stderr, or None if stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def check_writable(path: Path) -> None:
    """Raise NumcError if a file cannot be created at `path`: said before the work, not after it."""
    folder = path.parent
    if path.is_dir():
        raise NumcError(f"{path}: is a folder: name a file for the output")
    if not folder.is_dir():
        raise NumcError(f"{path}: cannot write: there is no folder {folder}: create it first")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise NumcError(f"{path}: cannot write: permission denied: choose another place for the output")


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Call `write` on a new file that takes the place of `path` when it is complete. Raises NumcError."""
    temporary: str | None = None
    try:
        if path.exists() and not path.is_file():  # /dev/null and the like cannot be replaced
            with open(path, "wb") as stream:
                write(stream)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes files that only their owner reads
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise NumcError(f"{path}: cannot write: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_text(path: str, text: str) -> None:
    """Write text to a file, or to stdout for ``-``."""
    if path == "-":
        click.echo(text, nl=not text.endswith("\n"))
        return
    write_whole(Path(path), lambda file: file.write(text.encode()))


def dims(shape: Sequence[int | None]) -> str:
    """Return for example ``?x64``, or ``scalar``."""
    return "x".join("?" if d is None else str(d) for d in shape) or "scalar"
