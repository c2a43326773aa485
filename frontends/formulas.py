"""Conditions on the sizes and the elements of tensors, as text in the grammar of Python.

``size(0, 1) == 2 * size(1, -1)`` compares sizes; tensors are numbered. ``each(1) >= 0`` is to hold for every element of
a tensor, one of which such a condition may name. ``at(1, 2)`` is one element, ``total(1)`` the sum of all, ``count(1)``
their number. There are + - * // %, min, max, comparisons, and, or, not. A condition is decided where all that it
depends on is known; checks.py writes the code of the others.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_OF_EQUALS = (operator.eq, operator.le, operator.ge)
ABOUT_TENSORS = ("size", "count", "at", "each", "total")


@dataclass(frozen=True)
class Known:
    """The known facts of a tensor: its sizes, or None without its rank; and its elements.

    A free size is its name, if it has one, or None: those of one name are equal.
    """

    sizes: Sequence[int | str | None] | None
    elements: npt.NDArray[Any] | None = None


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> ast.expr:
    """Return the tree of a condition."""
    return ast.parse(text, mode="eval").body


def call_of(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """Return the name and the arguments of a function of a condition, such as ``size(0, 1)``."""
    assert isinstance(node, ast.Call), ast.unparse(node)
    assert isinstance(node.func, ast.Name), ast.unparse(node)
    return node.func.id, node.args


def number_of(node: ast.expr) -> int:
    """Return the number that an argument is."""
    return int(ast.literal_eval(node))


def _calls(text: str) -> list[tuple[str, list[ast.expr]]]:
    return [call_of(node) for node in ast.walk(parsed(text)) if isinstance(node, ast.Call)]


def tensors_of(text: str) -> set[int]:
    """Return the numbers of the tensors that a condition depends on."""
    return {number_of(args[0]) for name, args in _calls(text) if name in ABOUT_TENSORS}


def each_of(text: str) -> int | None:
    """Return the number of the tensor whose every element a condition is about; None if there is none."""
    numbers = {number_of(args[0]) for name, args in _calls(text) if name == "each"}
    assert len(numbers) <= 1, text
    return numbers.pop() if numbers else None


def decided(text: str, tensors: Sequence[Known]) -> bool | None:
    """Return whether a condition holds of what is known of the tensors; None if that depends on a run."""
    truth = _value(parsed(text), tensors)
    return None if truth is None else bool(np.all(truth))


def value_of(text: str, tensors: Sequence[Known]) -> int | str | None:
    """Return the value of a formula of sizes: a number, the name of a free size, None if it depends on a run."""
    size = _value(parsed(text), tensors)
    return size if size is None or isinstance(size, str) else int(size)


def _value(node: ast.expr, tensors: Sequence[Known]) -> Any:
    """The value of a part of a condition; None where it depends on a run."""
    if isinstance(node, ast.BoolOp):
        return _joined(node, tensors)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, tensors)
        if inner is None or isinstance(inner, str):
            return None
        return np.logical_not(inner) if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BinOp):
        return _applied(getattr(operator, ARITHMETIC[type(node.op)]), [node.left, node.right], tensors)
    if isinstance(node, ast.Compare):
        compared = getattr(operator, COMPARISONS[type(node.ops[0])])
        return _applied(compared, [node.left, node.comparators[0]], tensors)
    name, args = call_of(node)
    if name in ("min", "max"):
        return _applied(np.minimum if name == "min" else np.maximum, args, tensors)
    return _of_tensor(name, tensors[number_of(args[0])], [number_of(each) for each in args[1:]])


def _joined(node: ast.BoolOp, tensors: Sequence[Known]) -> Any:
    values = [_value(each, tensors) for each in node.values]
    known = [value for value in values if value is not None]
    ends = isinstance(node.op, ast.Or)  # the value that decides without the others
    if any(np.all(value) if ends else not np.any(value) for value in known if np.size(value)):
        return ends
    if len(known) < len(values):
        return None
    return functools.reduce(np.logical_or if ends else np.logical_and, known)


def _applied(function: Callable[..., Any], nodes: Sequence[ast.expr], tensors: Sequence[Known]) -> Any:
    values = [_value(each, tensors) for each in nodes]
    if len(values) == 2 and isinstance(values[0], str) and values[0] == values[1] and function in _OF_EQUALS:
        return True
    if any(value is None or isinstance(value, str) for value in values):
        return None
    return functools.reduce(function, values)


def _of_tensor(name: str, tensor: Known, numbers: list[int]) -> Any:
    if name in ("size", "count"):
        if tensor.sizes is None:
            return None
        if name == "size":
            return tensor.sizes[numbers[0]]
        known = [size for size in tensor.sizes if isinstance(size, int)]
        return math.prod(known) if len(known) == len(tensor.sizes) else None
    if tensor.elements is None:
        return None
    values = tensor.elements.reshape(-1)
    values = values.astype(object) if values.dtype.kind in "biu" else values
    if name == "each":
        return values
    return sum(values.tolist()) if name == "total" else values.tolist()[numbers[0]]
