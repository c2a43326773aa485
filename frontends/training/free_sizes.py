"""Graphs whose sizes are free: numbers that follow from sizes, made where a region can get at them.

torch traces such a number as an input, as a computation, or as the size of any tensor. A program takes only tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

aten = torch.ops.aten


def is_number(node: fx.Node) -> bool:
    """Whether a node yields an integer that follows from sizes."""
    return isinstance(node.meta.get("val"), torch.SymInt)


def is_free(value: Any) -> bool:
    """Whether a value has free sizes or is a free number."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat))


def lift_numbers(graph: fx.Graph) -> None:
    """Compute every number of a graph from the graph's inputs, before everything else.

    So no part of the graph waits for a tensor of which only the size is asked.
    """
    inputs = list(graph.find_nodes(op="placeholder"))
    numbers = [node for node in graph.nodes if node.op == "call_function" and is_number(node)]
    if not numbers:
        return
    symbols: dict[Any, fx.Proxy] = {}
    tracer = _Tracer(graph)
    with graph.inserting_before(_begin(graph)):
        for node, dim, size in _sizes(inputs):
            if size.node.expr.is_symbol and size.node.expr not in symbols:
                symbols[size.node.expr] = fx.Proxy(node if dim is None else _size(graph, node, dim), tracer)
        made: dict[Any, Any] = {}
        for node in numbers:
            expr = node.meta["val"].node.expr
            if expr not in made:
                found = sympy_interp(PythonReferenceAnalysis, symbols, expr)
                made[expr] = found.node if isinstance(found, fx.Proxy) else int(found)
            node.replace_all_uses_with(made[expr])
    for node in reversed(numbers):
        graph.erase_node(node)


class _Tracer(fx.proxy.GraphAppendingTracer):
    """Appends operations on numbers to a graph, with their values."""

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        given, named = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        node.meta["val"] = node.target(*given, **named)  # type: ignore[operator]
        return node


def _sizes(nodes: Iterator[fx.Node] | list[fx.Node]) -> Iterator[tuple[fx.Node, int | None, torch.SymInt]]:
    """Yield the free numbers and sizes that nodes have: the node, its dimension or None, and the number."""
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            yield node, None, value
        elif isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    yield node, dim, size


def _begin(graph: fx.Graph) -> fx.Node:
    """Return the first node that is no input."""
    return next(node for node in graph.nodes if node.op != "placeholder")


def _size(graph: fx.Graph, node: fx.Node, dim: int) -> fx.Node:
    found = graph.call_function(aten.sym_size.int, (node, dim))
    found.meta["val"] = node.meta["val"].shape[dim]
    return found


def sizes_of_tensors(graph: fx.Graph) -> list[int]:
    """Replace the inputs of a part that are numbers; return the positions of the inputs that are left.

    A number is the size of a tensor of the part if there is one that is known before the number is used. The others
    become tensors of one integer.
    """
    inputs = list(graph.find_nodes(op="placeholder"))
    order = {node: n for n, node in enumerate(graph.nodes)}
    begin = _begin(graph)
    kept = []
    for position, node in enumerate(inputs):
        if not is_number(node):
            kept.append(position)
            continue
        first = min((order[user] for user in node.users), default=len(order))
        expr = node.meta["val"].node.expr
        tensors = (n for n in order if order[n] < first and isinstance(n.meta.get("val"), torch.Tensor))
        place = next(((n, d) for n, d, size in _sizes(tensors) if size.node.expr == expr), None)
        at_begin = place is None or place[0].op == "placeholder"
        with graph.inserting_before(begin) if at_begin else graph.inserting_after(place[0]):
            if place is None:
                number = graph.call_function(aten.Int.Tensor, (node,))
                number.meta["val"] = node.meta["val"]
            else:
                number = _size(graph, *place)
        node.replace_all_uses_with(number, delete_user_cb=lambda user: user is not number)
        if place is None:
            node.meta["val"] = torch.empty((), dtype=torch.int64)
            kept.append(position)
        else:
            graph.erase_node(node)
    return kept
