"""The page of a search while it is made."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path

from numc.studies.search.found import Search
from numc.support.errors import NumcError

_EVERY = 2.0
"""The page is written when so many seconds have passed since the last time."""


class LivePage:
    """Follows a search in its ``with`` block, and says at its end if an exception stopped the search.

    folder: of the search, or None for no page. so_far: returns its outcome so far.
    """

    def __init__(self, folder: Path | None, so_far: Callable[[], Search]) -> None:
        self._folder, self._so_far, self._written = folder, so_far, -math.inf

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None and self._written > -math.inf:
            with contextlib.suppress(NumcError):  # such as a full disk, which may be what stopped the search
                self._write(stopped=True)

    def follow(self) -> None:
        """Write the page, if there was time since it was written last. Raises NumcError if it cannot be."""
        if time.monotonic() - self._written > _EVERY:
            self._write(stopped=False)
            self._written = time.monotonic()

    def _write(self, *, stopped: bool) -> None:
        if self._folder is not None:
            from numc.studies.search.folder import write_live  # needs jinja2

            write_live(self._so_far(), self._folder, stopped=stopped)
