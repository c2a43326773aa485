"""Python's collector of cyclic garbage, while much is made that stays: it would look at all of that again and again."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_SELDOM = 50_000, 20, 100
_lock = threading.Lock()
_inside = 0
_before = gc.get_threshold()


def begin() -> None:
    """Collect more seldom, until `end` has been called as often as this; any thread may call them."""
    global _inside, _before
    with _lock:
        _inside += 1
        if _inside == 1:
            _before = gc.get_threshold()
            if _before[0]:  # else nothing is collected anyway
                gc.set_threshold(*map(max, _before, _SELDOM))


def end() -> None:
    """Collect as often as before. Without `begin`, it does nothing."""
    global _inside
    with _lock:
        if _inside == 1:
            gc.set_threshold(*_before)
        _inside = max(0, _inside - 1)


@contextlib.contextmanager
def seldom() -> Iterator[None]:
    """Collect more seldom while a ``with`` block lasts."""
    begin()
    try:
        yield
    finally:
        end()
