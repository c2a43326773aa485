"""Linalg-on-tensors text as a model."""

from __future__ import annotations

import os
from pathlib import Path

from numc.compiler.support.errors import NumcError
from numc.frontends.imported import Imported


def load(path: str | os.PathLike[str]) -> Imported:
    """Read a file of MLIR text. The compiler parses it and checks that there is one ``func.func @main`` on tensors.

    Raises NumcError if there is no such file or it is not UTF-8 text.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise NumcError(f"{file}: cannot read: {reason}; expected a file of MLIR text") from None
    return Imported(mlir=text, sources=(str(file),))
