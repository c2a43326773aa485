"""What the tasks need, told before the first run."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any

from sources import DataError
from study import RefusedError


def require_data(tasks: Iterable[Any]) -> None:
    """Raise RefusedError if a package that has the data of a task, or judges it, is not installed."""
    tasks = list(tasks)
    if any(task.name == "transformer" for task in tasks) and importlib.util.find_spec("sacrebleu") is None:
        raise RefusedError("sacrebleu judges the transformer and is not installed: pip install 'numc[bleu]'")
    try:
        for task in tasks:
            next(task.batches(0))
    except DataError as error:
        raise RefusedError(str(error)) from None
