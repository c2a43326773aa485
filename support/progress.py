"""The step that a compilation is at, for whoever shows it: nobody, unless a command draws a bar (cli/output.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, str, int, int], None]
"""Gets what is being done, to what (a pass, a layer), how many of these are done, and how many there are."""

_listeners: list[Listener] = []


@contextmanager
def told(listener: Listener) -> Iterator[None]:
    """Let `listener` be told of every compilation of this process in a ``with`` block, from any of its threads."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def forget() -> None:
    """Forget all listeners, which are those of the process that this one was forked from."""
    _listeners.clear()


def tell(what: str, item: str, done: int, total: int) -> None:
    """Tell all listeners where a compilation is."""
    for listener in tuple(_listeners):
        listener(what, item, done, total)
