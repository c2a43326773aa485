"""A bound for functions of users while they are traced, whose loops would otherwise not end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from numc.support.errors import NumcError

MOST_LINES = 100_000
_OWN = str(Path(__file__).resolve().parents[1])


@contextmanager
def bounded(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Raise NumcError, with the line, where a function runs more lines of its own; under a debugger there is no bound.

    name: of the operator. What numc calls for it is not counted.
    """
    if sys.gettrace() is not None:
        yield
        return
    lines = 0

    def watch(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if event == "call":
            code, caller = frame.f_code, frame.f_back
            is_users = code is getattr(function, "__code__", None) or (
                caller is not None and caller.f_trace is not None
            )
            is_own = code.co_name == "__init__" or os.path.realpath(code.co_filename).startswith(_OWN)
            return watch if is_users and not is_own else None
        lines += event == "line"
        if lines > MOST_LINES:
            where = f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}"
            raise NumcError(
                f"operator '{name}': {where}: {MOST_LINES} lines were run and it has not ended: want loops of a fixed "
                "length, and long tables outside of the function"
            )
        return watch

    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(None)
