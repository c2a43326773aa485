"""The page of work that is not finished. It loads itself again until the work ends, or is seen to have been killed.

A page cannot see the process that writes it. So the process writes a new time into it every few seconds, and a page
whose time is old says that nothing comes any more.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from numc.support.errors import NumcError
from numc.support.files import write_whole

BEAT = 5.0
"""Seconds after which an unfinished page is written with a new time."""
SILENCE = 300
"""Seconds without a new time after which the page takes the work for ended. Compiling may delay a beat for a while."""
_WRITTEN = re.compile(r'data-written="\d+"')


class LivePage:
    """Follows work in its ``with`` block, and says at its end if an exception stopped the work.

    path: of the page, or None for no page. every: seconds that are at least between two pages that `follow` makes.
    """

    def __init__(self, path: Path | None, every: float = 0.0) -> None:
        self._path, self._every = path, every
        self._made = -math.inf
        self._render: Callable[[bool], str] | None = None
        self._text = ""
        self._ended = threading.Event()
        self._beating: threading.Thread | None = None

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.end()
        if error is not None and self._render is not None:
            with contextlib.suppress(NumcError):  # such as a full disk, which may be what stopped the work
                self._write(self._render(True))

    def follow(self, render: Callable[[bool], str]) -> None:
        """Write the page that `render` makes, if there was time since the last one. Raises NumcError if it cannot be.

        render: returns the page; what it takes says if the work was stopped.
        """
        if self._path is None or time.monotonic() - self._made < self._every:
            return
        self.end()
        self._render, self._text = render, render(False)
        self._write(self._text)
        self._made = time.monotonic()
        self._ended.clear()
        self._beating = threading.Thread(target=self._beat, daemon=True)
        self._beating.start()

    def end(self) -> None:
        """Write no new time any more, so that the page can be made for the last time."""
        self._ended.set()
        if self._beating is not None:
            self._beating.join()
            self._beating = None

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            with contextlib.suppress(NumcError):  # the work goes on, and tells of a disk that is full by itself
                self._write(_WRITTEN.sub(f'data-written="{time.time():.0f}"', self._text, count=1))

    def _write(self, text: str) -> None:
        if self._path is not None:
            write_whole(self._path, lambda file: file.write(text.encode()))
