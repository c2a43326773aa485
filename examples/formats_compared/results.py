"""Results in a file of JSON lines, one for each run, so that a comparison can be stopped and continued."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


class ResultsError(Exception):
    """The file holds no results."""


@dataclass(frozen=True)
class Result:
    """A run and its outcome, a dataclass. settings: the fields of its task."""

    network: str
    arithmetic: str
    seed: int
    settings: dict[str, Any]
    outcome: Any


def settings_of(task: Any) -> dict[str, Any]:
    """Return a task's fields as they come back from JSON."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(task)))
    return found


class Results:
    """The results in a file. A line that an interrupted process left half written is cut off."""

    def __init__(self, path: Path, kind: type[Any]) -> None:
        """Read what there is. kind: the class of the outcomes. Raises ResultsError, OSError."""
        self.path = path
        self.all: list[Result] = []
        if not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                values = json.loads(line)
                self.all.append(Result(**{**values, "outcome": kind(**values["outcome"])}))
            except (ValueError, TypeError, KeyError) as error:
                raise ResultsError(f"{path}:{number}: not a result; take another file with --results") from error
        if whole != text:
            path.write_text(whole, encoding="utf-8")

    def find(self, task: Any, arithmetic: str, seed: int) -> Any:
        """Return what a run gave, or None if it has not been. Runs with other settings do not count.

        task: a dataclass with a name.
        """
        key = task.name, arithmetic, seed, settings_of(task)
        return next((r.outcome for r in self.all if (r.network, r.arithmetic, r.seed, r.settings) == key), None)

    def add(self, task: Any, arithmetic: str, seed: int, outcome: Any) -> None:
        """Append a run to the file."""
        result = Result(task.name, arithmetic, seed, settings_of(task), outcome)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        self.all.append(result)

    def runs(self, task: Any, arithmetic: str, seeds: Iterable[int]) -> list[Any] | None:
        """Return what the runs from some seeds gave, or None unless all are there."""
        found = [self.find(task, arithmetic, seed) for seed in seeds]
        return None if None in found else [outcome for outcome in found if outcome]
