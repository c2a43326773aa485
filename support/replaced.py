"""Functions of another package that are other ones for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def replaced(module: ModuleType, **functions: Callable[..., Any]) -> Iterator[None]:
    """Replace functions of a module while a ``with`` block lasts; those that its version does not have are left out."""
    inside = vars(module)
    theirs = {name: inside[name] for name in functions if name in inside}
    inside.update({name: functions[name] for name in theirs})
    try:
        yield
    finally:
        inside.update(theirs)
