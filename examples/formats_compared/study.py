"""What the scripts of studies share: the runs that are missing, what is not installed, and their exit status."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from results import Results, ResultsError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import numc

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


def positive(text: str, least: int = 1) -> int:
    """Return the number of an option. Raises ArgumentTypeError for anything but a whole number from `least`."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"got {text!r}, want a whole number from {least}")
    return int(text)


class RefusedError(Exception):
    """The script cannot run like this. The message says why."""


def require(plot: Path | None, digits: bool, instead: str = "") -> None:
    """Raise RefusedError if a package is not installed. digits: whether they are needed; instead: how to do without."""
    if digits and importlib.util.find_spec("sklearn") is None:
        raise RefusedError(
            f"the digits come from scikit-learn, which is not installed: pip install scikit-learn{instead}"
        )
    if plot and importlib.util.find_spec("matplotlib") is None:
        raise RefusedError("--plot needs matplotlib, which is not installed: pip install matplotlib")


def status(work: Callable[[argparse.Namespace], object], args: argparse.Namespace) -> int:
    """Do the work of a script; return its exit status: 2 for bad input, 130 after Ctrl-C, with the reason on stderr.

    It is 1 if a function leaves numc, whose results would be those of another arithmetic. args: has `results`, the file
    of the finished runs.
    """
    # Sums that torch computes itself, such as the gradient of an embedding, have one order on one thread.
    torch.set_num_threads(1)
    torch._logging.set_logs(dynamo=logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "numc: .* leaves numc", UserWarning)
            work(args)
    except UserWarning as left:
        print(f"run.py: {left}", file=sys.stderr)
        return 1
    except (RefusedError, numc.NumcError, ResultsError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"run.py: stopped; finished runs are in {args.results}: the same command goes on", file=sys.stderr)
        return 130
    return 0
