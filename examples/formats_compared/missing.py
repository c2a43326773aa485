"""The runs of a study that its file of results lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from results import Results
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tasks import Task
from training import Outcome, Trainer

Run = Callable[[Trainer, str, int, Callable[[], None]], Outcome]
"""From a trainer, the name of an arithmetic or a recipe, a seed, and what is called after each step."""


def carry_out(runs: Iterable[tuple[Task, str, int]], results: Results, run: Run) -> None:
    """Carry out those runs, each a task, a name and a seed, that are missing, in their order."""
    missing = [(task, name, seed) for task, name, seed in runs if results.find(task, name, seed) is None]
    trainers: dict[Task, Trainer] = {}
    with _progress(sum(task.steps for task, _, _ in missing)) as progress:
        (bar,) = progress.task_ids
        for task, name, seed in missing:
            progress.update(bar, description=f"{task.title}, seed {seed}, {name}")
            if task not in trainers:
                trainers[task] = Trainer(task)
            results.add(task, name, seed, run(trainers[task], name, seed, lambda: progress.advance(bar)))


def _progress(steps: int) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task("", total=steps)
    return progress
