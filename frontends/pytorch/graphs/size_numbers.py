"""Numbers that torch computes of free sizes, in the operators for which torch-mlir has a lowering.

torch.export writes them as functions of Python, of which torch-mlir's importer knows a few.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

aten, prim = torch.ops.aten, torch.ops.prim


def name_operators(graph: fx.Graph) -> None:
    """Let a graph compute its numbers by operators that torch-mlir lowers, in place."""
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if isinstance(node.target, torch._ops.OpOverload):
                _make_tensors(graph, node)
            elif node.target in _WRITTEN and _is_number(node):
                made = _WRITTEN[node.target](_Numbers(graph), *node.args)
                if made is not None:
                    node.replace_all_uses_with(made)
                    graph.erase_node(node)


def _is_number(given: Any) -> bool:
    return isinstance(given, fx.Node) and isinstance(given.meta.get("val"), (torch.SymInt, torch.SymFloat))


def _make_tensors(graph: fx.Graph, node: fx.Node) -> None:
    """Let an operation have tensors where its schema has them: torch takes a number that follows from sizes, too."""
    for n, (operand, argument) in enumerate(zip(node.args, node.target._schema.arguments, strict=False)):
        if _is_number(operand) and isinstance(argument.type, torch.TensorType):
            number = operand.meta["val"]
            dtype = torch.int64 if isinstance(number, torch.SymInt) else torch.float32
            tensor = graph.call_function(aten.scalar_tensor.default, (operand,), {"dtype": dtype})
            tensor.meta["val"] = node.meta["val"].new_empty((), dtype=dtype)
            node.update_arg(n, tensor)


@dataclass(frozen=True)
class _Numbers:
    """Appends operations on numbers to a graph."""

    graph: fx.Graph

    def call(self, function: Callable[..., Any], *given: Any, by: Any = None) -> fx.Node:
        """Append a function of numbers, by an operator of torch if the importer does not know it."""
        node = self.graph.call_function(by or function, given)
        node.meta["val"] = function(*map(_value, given))
        return node

    def remainder(self, one: Any, other: Any) -> fx.Node:
        """Append one % other, which has the sign of the other; aten.remainder.int becomes that of C."""
        whole = self.call(operator.floordiv, one, other)
        return self.call(operator.sub, one, self.call(operator.mul, whole, other))

    def floor(self, one: Any) -> fx.Node:
        """Append the floor of a float."""
        back = self.call(operator.neg, one, by=aten.neg.float)
        return self.call(operator.neg, self.call(math.ceil, back, by=aten.ceil.float), by=aten.neg.int)

    def power(self, one: Any, exponent: Any) -> fx.Node | None:
        """Append a small power, the root of an integer, or a power of a float; None for others."""
        if exponent == 0.5 and isinstance(one, fx.Node) and one.target is aten.Float.Scalar:
            return self.call(lambda value: torch.sym_float(value) ** 0.5, one.args[0], by=aten.sqrt.int)
        if exponent == 0.5 and self.is_float(one):
            return self.root(one)
        if exponent not in (2, 3, 4):
            is_known = self.is_float(one) and isinstance(exponent, (int, float))
            return self.by_tensor(one, aten.pow.Tensor_Scalar, exponent) if is_known else None
        product = one
        for _ in range(exponent - 1):
            product = self.call(operator.mul, product, one)
        return product

    def root(self, one: Any) -> fx.Node:
        """Append the square root of a number."""
        return self.by_tensor(one, aten.sqrt.default)

    def by_tensor(self, one: Any, function: Any, *more: Any) -> fx.Node:
        """Append a function that torch-mlir has for tensors alone, of a number."""
        tensor = self.graph.call_function(aten.scalar_tensor.default, (one,), {"dtype": torch.float64})
        result = self.graph.call_function(function, (tensor, *more))
        some = next(n.meta["val"] for n in self.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor))
        for node in (tensor, result):
            node.meta["val"] = some.new_empty((), dtype=torch.float64)
        back = self.graph.call_function(aten.Float.Tensor, (result,))
        back.meta["val"] = torch.sym_float(_value(one))  # of the type that matters, not of the value
        return back

    def is_float(self, one: Any) -> bool:
        """Whether a number is a float."""
        return isinstance(_value(one), (float, torch.SymFloat))

    def extreme(self, function: Any, one: Any, other: Any, by: Any) -> fx.Node | None:
        """Append the larger or the smaller of two integers; None for floats."""
        return None if self.is_float(one) or self.is_float(other) else self.call(function, one, other, by=by)


def _value(given: Any) -> Any:
    return given.meta["val"] if isinstance(given, fx.Node) else given


_WRITTEN: Mapping[Any, Callable[..., fx.Node | None]] = {
    operator.mod: _Numbers.remainder,
    operator.pow: _Numbers.power,
    operator.rshift: lambda made, one, count: made.call(operator.floordiv, one, 1 << count),
    math.floor: _Numbers.floor,
    math.ceil: lambda made, one: made.call(math.ceil, one, by=aten.ceil.float),
    **dict.fromkeys((math.trunc, torch.sym_int), lambda made, one: made.call(math.trunc, one, by=aten.Int.Scalar)),
    torch.sym_float: lambda made, one: made.call(torch.sym_float, one, by=aten.Float.Scalar),
    torch._sym_sqrt: _Numbers.root,
    torch.sym_max: lambda made, *given: made.extreme(torch.sym_max, *given, by=prim.max.int),
    torch.sym_min: lambda made, *given: made.extreme(torch.sym_min, *given, by=prim.min.int),
}
"""What writes a function of Python anew."""
