"""Writing files so that a failure leaves no incomplete file."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

from numc.compiler.support.errors import NumcError

#: The names of files that write_whole has not completed. Only a writer that was killed leaves one.
TEMPORARY = re.compile(r"\.numc-[0-9a-f]{16}\.tmp")


def check_writable(path: Path) -> None:
    """Raise NumcError if no file can be created at `path`. Commands call this before work that takes long."""
    folder = path.parent
    if path.is_dir():
        raise NumcError(f"{path}: is a folder: name a file for the output")
    if not folder.is_dir():
        raise NumcError(f"{path}: cannot write: there is no folder {folder}: create it first")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise NumcError(f"{path}: cannot write: permission denied: choose another place for the output")


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a temporary file, which replaces `path` when it is complete. Raises NumcError if it cannot."""
    try:
        if path.exists() and not path.is_file():  # a device such as /dev/null cannot be replaced
            with open(path, "wb") as stream:
                write(stream)
            return
        temporary = path.with_name(f".numc-{secrets.token_hex(8)}.tmp")
        try:
            with open(temporary, "xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise NumcError(f"{path}: cannot write: {error.strerror or error}") from None
