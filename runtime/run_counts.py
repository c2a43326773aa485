"""The multiply-adds of one run of a program: numbers, and formulas of the sizes of its inputs."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a // b if b else 0,
    "max": max,
    "min": min,
}


def run_counts(manifest: Mapping[str, Any], inputs: Sequence[Any]) -> Iterator[tuple[str, str, int]]:
    """Yield role, operator and number of the multiply-adds of a run with these inputs, arrays or tensors.

    A program whose numbers follow from data has none.
    """
    for row in manifest["fmas"] or ():
        yield row["role"], row["fma"], row["count"] + (evaluated(row["free"], inputs) if row["free"] else 0)


def evaluated(formula: str, inputs: Sequence[Any]) -> int:
    """Return the value of a formula in postfix notation.

    Its terms are numbers, ``x2.1`` for the size of dimension 1 of input 2 and ``x2`` for the value of that input; its
    operations are ``+ - * / max min``, where / rounds down.
    """
    stack: list[int] = []
    for term in formula.split():
        if term in _OPERATIONS:
            right = stack.pop()
            stack.append(_OPERATIONS[term](stack.pop(), right))
        elif term.startswith("x"):
            number, _, dimension = term[1:].partition(".")
            one = inputs[int(number)]
            stack.append(int(one.shape[int(dimension)]) if dimension else int(one))
        else:
            stack.append(int(term))
    (value,) = stack
    return value
