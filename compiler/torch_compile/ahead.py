"""Work that is begun before its result is needed, on as many threads as numc has; on one, it waits until then."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from numc.runtime.library import default_threads

_T = TypeVar("_T")
#: Seconds after which who waits for a result says so.
PATIENCE = 60.0


class Ahead(Generic[_T]):
    """The result of a function without arguments, which has begun, or begins when it is asked for.

    A child that the process forks has no part in what the threads of its parent do: it calls the function itself.
    """

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._begun = threading.Lock()
        self._done = threading.Event()
        self._process = os.getpid()
        self._found: _T
        self._error: BaseException | None = None

    def result(self) -> _T:
        """Return what the function returned, or raise what it raised. Who asks first does what has not begun."""
        if self._process != os.getpid():
            return self._make()
        self.run()
        if not self._done.wait(PATIENCE):
            what = f"has waited {PATIENCE:g} s for a program that another thread of this process compiles"
            warnings.warn(f"numc: {what}, and waits on", stacklevel=2)
            self._done.wait()
        if self._error is not None:
            raise self._error
        return self._found

    def run(self) -> None:
        """Do it, if nobody has begun."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._found = self._make()
        except BaseException as error:  # for who asks
            self._error = error
        finally:
            self._done.set()


_waiting: deque[Ahead[Any]] = deque()
_running = 0
_lock = threading.Lock()


def begin(make: Callable[[], _T]) -> Ahead[_T]:
    """Call `make` on another thread, after what has been begun before where that keeps all threads busy."""
    global _running
    ahead, most = Ahead(make), default_threads()
    if most > 1:
        with _lock:
            _waiting.append(ahead)
            if _running < most:
                _running += 1
                threading.Thread(target=_work, daemon=True).start()
    return ahead


def _work() -> None:
    global _running
    while True:
        with _lock:
            if not _waiting:
                _running -= 1
                return
            following = _waiting.popleft()
        following.run()


def _forget() -> None:
    """Leave what is waiting to the parent after a fork, or undone at the end of the process."""
    global _running, _lock
    _lock, _running = threading.Lock(), 0
    _waiting.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(_forget)
