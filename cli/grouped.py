"""Options that a command takes together, as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

Command = Callable[..., Any]


def grouped(keyword: str, record: Callable[..., Any], *options: Callable[[Command], Command]) -> Callable[..., Any]:
    """Add options to a command, which gets their values in `keyword`, as a record whose fields have their names."""
    names = inspect.signature(record).parameters

    def add(function: Command) -> Command:
        @functools.wraps(function)
        def command(*arguments: Any, **named: Any) -> Any:
            group = record(**{name: named.pop(name) for name in names if name in named})
            return function(*arguments, **{keyword: group}, **named)

        for option in reversed(options):
            option(command)
        return command

    return add
