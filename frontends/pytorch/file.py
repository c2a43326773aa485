"""The import of a file of torch.export.save: its reader and torch run in a worker, so that neither is imported here."""

from __future__ import annotations

import os
from pathlib import Path

from numc.frontends.imported import Imported, from_message
from numc.frontends.workers import process
from numc.support.errors import NumcError


def load(path: str | os.PathLike[str]) -> Imported:
    """Import a file written by torch.export.save. Nothing in it is executed.

    Raises NumcError if the file cannot be read or imported, or if it cannot be read without executing what it holds.
    """
    file = Path(path)
    try:
        size = file.stat().st_size
    except OSError as error:
        reason = f"cannot read: {error.strerror}: want a file that torch.export.save wrote"
        raise NumcError(f"{file}: {reason}") from None
    try:
        task = "numc.frontends.pytorch.load:import_task"
        return from_message(*process.ask(task, {"path": str(file)}, size=size, forks=True))
    except process.LimitError as error:
        raise NumcError(f"{file}: {error}") from None
    except process.CrashError as death:
        raise NumcError(f"{file}: torch {death} (stage: {death.stage}); the file is damaged: export it again") from None
