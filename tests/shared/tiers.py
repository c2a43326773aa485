"""Choices of which test cases the default tier runs; the others are left to `make test-all` or `make exhaustive`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def by_default(values: Iterable[Any], chosen: Iterable[Any]) -> list[Any]:
    """Return `values` as parameters of a test, those that are not in `chosen` in the tier `all`.

    Values that have a mark already, such as those of `pairs`, keep it.
    """
    chosen = list(chosen)
    return [value if _marked(value) or value in chosen else _with(pytest.mark.all, value) for value in values]


def one_in(n: int, cases: Iterable[Any], *always: Any) -> list[Any]:
    """Return cases as parameters of a test; only `make exhaustive` runs more than each n-th and those of `always`.

    Cases that have a mark already, such as those of `pairs`, keep it and do not count.
    """
    found, unmarked = [], 0
    for case in cases:
        if not _marked(case):
            if unmarked % n and case not in always:
                case = _with(pytest.mark.slow, case)
            unmarked += 1
        found.append(case)
    return found


def pairs(first: Sequence[Any], second: Sequence[Any], *always: Callable[[Any, Any], bool]) -> list[Any]:
    """Return the product of two lists as parameters of a test; the default tier runs a part in which all of both occur.

    Only `make exhaustive` runs the others.

    Value number i of `first` meets the values of `second` whose number is i modulo the length of the shorter list,
    and those for which one of `always` is true.
    """
    step = min(len(first), len(second))
    cases = []
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            default = i % step == j % step or any(condition(x, y) for condition in always)
            cases.append((x, y) if default else pytest.param(x, y, marks=pytest.mark.slow))
    return cases


def _marked(case: Any) -> bool:
    return bool(getattr(case, "marks", ()))


def _with(mark: pytest.MarkDecorator, case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=mark)
