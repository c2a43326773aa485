"""Where in the source an operation was made or a trace failed: a line of the user, and of a library that it called."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import torch

from numc.support.versions import own_folder


def _within(folder: str | Path) -> str:
    """A prefix of all paths in a folder, and of none in others whose name begins as its own does."""
    return os.path.join(folder, "")


_PACKAGES = tuple(
    {_within(Path(torch.__file__).parents[1]), *map(_within, map(sysconfig.get_path, ("purelib", "platlib")))}
)
_UNNAMED = (_within(Path(torch.__file__).parent), _within(own_folder()), "torch/", "<")
_STANDARD = _within(sysconfig.get_path("stdlib"))
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def place_in(stack: str) -> str:
    """Return what `place_of` returns for a call stack in words."""
    return place_of(_FRAME.findall(stack))


def place_of(frames: Iterable[tuple[str, object]]) -> str:
    """Return the innermost line outside of torch, as ``file:line``; "" without one.

    Of an installed library, it is followed by the innermost line outside of libraries, which called it.
    frames: files and lines, the outermost first.
    """
    named = [(file, line) for file, line in frames if not file.startswith(_UNNAMED)]
    named = [(file, line) for file, line in named if file.startswith(_PACKAGES) or not file.startswith(_STANDARD)]
    if not named:
        return ""
    inner = "{}:{}".format(*named[-1])
    mine = [f"{file}:{line}" for file, line in named if not file.startswith(_PACKAGES)]
    return f"{inner}, called at {mine[-1]}" if mine and mine[-1] != inner else inner
