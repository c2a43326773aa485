"""A file with a line of JSON for every step, which is complete whenever a training is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterable

from numc.support.errors import NumcError
from numc.support.files import check_writable, checked_path, write_whole


class Lines:
    """The lines of a file. The first ones of a run are written by `replace`, the others by `append`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take a file that need not be there. Raises NumcError if it cannot be written."""
        self._path = checked_path(path)
        check_writable(self._path)

    def append(self, line: str) -> None:
        """Write one more line. Raises NumcError if it cannot be written."""
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise NumcError(f"{self._path}: cannot write: {error.strerror or error}") from None

    def replace(self, lines: Iterable[str]) -> None:
        """Make these the lines of the file, all or none. Raises NumcError if they cannot be written."""
        text = "".join(line + "\n" for line in lines)
        write_whole(self._path, lambda file: file.write(text.encode()))
