"""The decisions of a recipe, in memory and in a file with a line for each."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from numc.compiler.support.errors import NumcError
from numc.compiler.support.files import check_writable, checked_path, write_whole
from numc.train.decision import Decision


class History:
    """Decisions in the order of their steps.

    A file, if there is one, has them from the first step of this run on, and is replaced when the run is made: a run
    that goes on from a checkpoint begins with `replace`.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.decisions: list[Decision] = []
        self._path = None if path is None else checked_path(path)
        self._started = False
        if self._path is not None:
            check_writable(self._path)

    def add(self, decision: Decision) -> None:
        """Append a decision. Raises NumcError if the file cannot be written; the decision is in memory then."""
        self.decisions.append(decision)
        if self._path is None:
            return
        if not self._started:
            self._write(self.decisions)
            return
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(_line(decision))
        except OSError as error:
            raise NumcError(f"{self._path}: cannot write: {error.strerror or error}") from None

    def replace(self, decisions: Sequence[Decision]) -> None:
        """Begin anew with the decisions of a checkpoint."""
        self.decisions = list(decisions)
        if self._path is not None:
            self._write(self.decisions)

    def _write(self, decisions: Sequence[Decision]) -> None:
        assert self._path is not None
        text = "".join(map(_line, decisions))
        write_whole(self._path, lambda file: file.write(text.encode()))
        self._started = True


def _line(decision: Decision) -> str:
    return json.dumps(decision.to_json()) + "\n"
