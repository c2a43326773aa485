"""The runs of a study that its file of results lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from results import Results
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Run = Callable[[Any, str, int, Callable[[], None]], Any]
"""From a task, an arithmetic, a seed, and what is to be called after each step, to the outcome."""


def carry_out(
    tasks: Sequence[Any], arithmetics: Sequence[str], seeds: Iterable[int], results: Results, run: Run
) -> None:
    """Carry out the runs that are missing, seed by seed, and store each when it has finished.

    tasks: dataclasses with a name, a title and a number of steps.
    """
    missing = [
        (task, seed, name)
        for seed in seeds
        for task in tasks
        for name in arithmetics
        if results.find(task, name, seed) is None
    ]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=sum(task.steps for task, _, _ in missing))
        for task, seed, name in missing:
            progress.update(bar, description=f"{task.title}, seed {seed}, {name}")
            results.add(task, name, seed, run(task, name, seed, lambda: progress.advance(bar)))
