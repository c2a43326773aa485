"""Linalg-on-tensors text as a model."""

from __future__ import annotations

import os
from pathlib import Path

from numc.frontends.imported import Imported
from numc.frontends.workers import process
from numc.support.errors import NumcError

# A quarter of what a process usually has: what a worker can parse, the passes of the process that asks can walk, too.
_STACK = 2 << 20


def load(path: str | os.PathLike[str]) -> Imported:
    """Read a file of MLIR text. The compiler checks that there is one ``func.func @main`` on tensors.

    Raises NumcError if there is no such file, or it is not UTF-8 text that MLIR can parse.
    """
    file = Path(path)
    if file.is_char_device():  # some have no end
        raise NumcError(f"{file}: cannot read: a device: want a file of MLIR text")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise NumcError(f"{file}: cannot read: {reason}: want a file of MLIR text") from None
    data = text.encode()
    try:
        process.ask("numc.frontends.parse:parse_task", {"name": str(file)}, [data], size=len(data), stack=_STACK)
    except process.CrashError as death:
        raise NumcError(
            f"{file}: the parser of MLIR {death}: the text is nested too deeply, or damaged: make it anew"
        ) from None
    except process.LimitError as error:
        raise NumcError(f"{file}: {error}") from None
    return Imported(mlir=text, sources=(str(file),))
