"""The multiply-adds of one run of a program: numbers, and formulas of the sizes of its inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a // b if b else 0,
    "max": max,
    "min": min,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
}


def run_counts(manifest: Mapping[str, Any], inputs: Sequence[Any]) -> Iterator[tuple[str, str, int]]:
    """Yield role, operator and number of the multiply-adds of a run with these inputs, arrays or tensors.

    A program whose numbers follow from data has none.
    """
    sizes: list[int] = []
    for formula in manifest["sizes"]:
        sizes.append(evaluated(formula, inputs, sizes))
    for row in manifest["fmas"] or ():
        yield row["role"], row["fma"], row["count"] + (evaluated(row["free"], inputs, sizes) if row["free"] else 0)


def evaluated(formula: str, inputs: Sequence[Any], sizes: Sequence[int] = ()) -> int:
    """Return the value of a formula in postfix notation.

    Its terms are numbers, ``x2.1`` for the size of dimension 1 of input 2, ``x2`` for the value of that input, and
    ``t3`` for number 3 of `sizes`; its operations are ``+ - * / max min``, where / rounds down, ``== != < <=``, which
    give 1 or 0, and ``?``: of three values the second one, unless the first is 0, which gives the third one.
    """
    stack: list[int] = []
    for term in formula.split():
        if term in _OPERATIONS:
            right = stack.pop()
            stack.append(_OPERATIONS[term](stack.pop(), right))
        elif term == "?":
            otherwise, then, condition = stack.pop(), stack.pop(), stack.pop()
            stack.append(then if condition else otherwise)
        elif term.startswith("x"):
            number, _, dimension = term[1:].partition(".")
            given_input = inputs[int(number)]
            stack.append(int(given_input.shape[int(dimension)]) if dimension else int(given_input))
        else:
            stack.append(sizes[int(term[1:])] if term.startswith("t") else int(term))
    (value,) = stack
    return value
