"""Results in a file of JSON lines, one for each run, so that a study can be stopped and continued."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tasks import Task
from training import Outcome

Key = tuple[str, str, int]
"""Name of the task, name of the variant, seed."""


class ResultsError(Exception):
    """The file holds no results."""


class Results:
    """The results in a file. A line that an interrupted process left half written is cut off."""

    def __init__(self, path: Path) -> None:
        """Read what there is. Raises ResultsError, OSError."""
        self.path = path
        self._found: dict[Key, tuple[dict[str, Any], Outcome]] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = json.loads(line)
                self._found[row["network"], row["variant"], row["seed"]] = row["settings"], Outcome(**row["outcome"])
            except (ValueError, TypeError, KeyError) as error:
                raise ResultsError(f"{path}:{number}: not a result; take another file with --results") from error
        if whole != text:
            path.write_text(whole, encoding="utf-8")

    def find(self, task: Task, variant: str, seed: int) -> Outcome | None:
        """Return what a run gave, or None if it has not been. Runs with other settings do not count."""
        settings, outcome = self._found.get((task.name, variant, seed), ({}, None))
        return outcome if settings == settings_of(task) else None

    def add(self, task: Task, variant: str, seed: int, outcome: Outcome) -> None:
        """Append a run to the file."""
        key = {"network": task.name, "variant": variant, "seed": seed}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**key, "settings": settings_of(task), "outcome": asdict(outcome)}) + "\n")
        self._found[task.name, variant, seed] = settings_of(task), outcome

    def runs(self, task: Task, variant: str, seeds: Iterable[int]) -> list[Outcome]:
        """Return what the runs from some seeds gave, without those that have not been."""
        found = [self.find(task, variant, seed) for seed in seeds]
        return [outcome for outcome in found if outcome is not None]


def settings_of(task: Task) -> dict[str, Any]:
    """Return a task's fields as they come back from JSON."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(task)))
    return found
