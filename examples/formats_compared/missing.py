"""The runs of a study that its file of results lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from results import Results
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Run = Callable[[Any, str, int, Callable[[], None]], Any]
"""From a task, the name of an arithmetic or a recipe, a seed, and what is called after each step, to the outcome."""


def carry_out(runs: Iterable[tuple[Any, str, int]], results: Results, run: Run) -> None:
    """Carry out those runs, each a task, a name and a seed, that are missing, in their order; store each at its end.

    A task is a dataclass with a name, a title and a number of steps.
    """
    missing = [(task, name, seed) for task, name, seed in runs if results.find(task, name, seed) is None]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=sum(task.steps for task, _, _ in missing))
        for task, name, seed in missing:
            progress.update(bar, description=f"{task.title}, seed {seed}, {name}")
            results.add(task, name, seed, run(task, name, seed, lambda: progress.advance(bar)))
