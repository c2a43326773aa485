"""The decisions of a recipe, in memory and in a file with a line for each."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from numc.train.observe.lines import Lines
from numc.train.recipes.decision import Decision


class History:
    """Decisions in the order of their steps.

    A file, if there is one, has them from the first step of this run on, and is replaced when the run is made: a run
    that goes on from a checkpoint begins with `replace`.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.decisions: list[Decision] = []
        self._lines = None if path is None else Lines(path)
        self._started = False

    def add(self, decision: Decision) -> None:
        """Append a decision. Raises NumcError if the file cannot be written; the decision is in memory then."""
        self.decisions.append(decision)
        if self._lines is not None and self._started:
            self._lines.append(_line(decision))
        else:
            self._write()

    def replace(self, decisions: Sequence[Decision]) -> None:
        """Begin anew with the decisions of a checkpoint."""
        self.decisions = list(decisions)
        self._write()

    def _write(self) -> None:
        if self._lines is not None:
            self._lines.replace(map(_line, self.decisions))
            self._started = True


def _line(decision: Decision) -> str:
    return json.dumps(decision.to_json())
