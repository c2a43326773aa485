"""Graphs whose sizes or numbers are free: numbers that follow from them, made where a region can get at them.

torch traces such a number as an input, as a computation, or as the size of any tensor. A program takes only tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from numc.frontends.pytorch.graphs.graph import values_of

aten = torch.ops.aten
# How a part reads a number from a tensor of one element, and the dtype of that.
_READ = {torch.SymInt: (aten.Int.Tensor, torch.int64), torch.SymFloat: (aten.Float.Tensor, torch.float64)}


def is_number(node: fx.Node) -> bool:
    """Whether a node yields a number that follows from sizes and numbers among the inputs, not from data."""
    value = node.meta.get("val")
    return isinstance(value, (torch.SymInt, torch.SymFloat)) and not free_unbacked_symbols(value)


def is_free(value: Any) -> bool:
    """Whether a value has free sizes or is a free number."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat))


def has_free_sizes(graph: fx.Graph) -> bool:
    """Whether anything in a graph has free sizes or is a free number."""
    return any(is_free(value) for node in graph.nodes for value in values_of(node))


def read_numbers(graph: fx.Graph) -> dict[int, list[fx.Node]]:
    """Return, by position of the input, the nodes that read it as a number.

    torch traces a float that varies from call to call, such as an attribute of a module, as a tensor of one element.
    """
    inputs = enumerate(graph.find_nodes(op="placeholder"))
    readers = {n: [user for user in node.users if user.target == "item"] for n, node in inputs}
    return {n: users for n, users in readers.items() if users}


def fix_numbers(graph_module: fx.GraphModule, given: Sequence[Any]) -> None:
    """Let a graph have the numbers that it reads from `given` inputs as constants."""
    for position, users in read_numbers(graph_module.graph).items():
        for node in users:
            node.replace_all_uses_with(given[position].item())
            graph_module.graph.erase_node(node)
    graph_module.recompile()


class FixedSizesError(Exception):
    """A graph has something that can be compiled for fixed sizes only, if at all."""


def lift_sizes(graph: fx.Graph) -> None:
    """Compute the sizes of tensors that a graph makes from its inputs, before everything else.

    So nothing waits for a tensor of which only a size is asked. Raises FixedSizesError if a size is no arithmetic on
    sizes of inputs.
    """
    inputs = list(graph.find_nodes(op="placeholder"))
    asked = [
        n
        for n in graph.nodes
        if is_number(n)
        and isinstance(n.meta["val"], torch.SymInt)
        and any(_is_made(operand) for operand in n.all_input_nodes)
    ]
    if not asked:
        return
    symbols: dict[Any, fx.Proxy] = {}
    tracer = _Tracer(graph)
    with graph.inserting_before(_begin(graph)):
        for node, dim, size in _sizes(inputs):
            if size.node.expr.is_symbol and size.node.expr not in symbols:
                symbols[size.node.expr] = fx.Proxy(node if dim is None else _size(graph, node, dim), tracer)
        for node in asked:
            try:
                proxy = sympy_interp(PythonReferenceAnalysis, symbols, node.meta["val"].node.expr)
            except (KeyError, fx.proxy.TraceError):
                raise FixedSizesError from None
            node.replace_all_uses_with(proxy.node if isinstance(proxy, fx.Proxy) else int(proxy))
    for node in reversed(asked):
        graph.erase_node(node)


def _is_made(node: fx.Node) -> bool:
    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)


class _Tracer(fx.proxy.GraphAppendingTracer):  # type: ignore[misc]
    """Appends operations on numbers to a graph, with their values."""

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        node.meta["val"] = node.target(*arguments, **keywords)
        return node


def _sizes(nodes: Iterable[fx.Node]) -> Iterator[tuple[fx.Node, int | None, torch.SymInt]]:
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


def _size(graph: fx.Graph, node: fx.Node, dim: int | None) -> fx.Node:
    size_node = graph.call_function(aten.sym_size.int, (node, dim))
    size_node.meta["val"] = node.meta["val"].shape[dim]
    return size_node


def numbers_to_tensors(graph: fx.Graph) -> list[int]:
    """Replace the inputs of a part that are numbers; return the positions of the inputs that are left.

    A number is the size of a tensor of the part if there is one that is known before the number is used. The others
    become tensors of one int64 or float64.
    """
    order = {node: n for n, node in enumerate(graph.nodes)}
    begin, kept = _begin(graph), []
    for position, node in enumerate(list(graph.find_nodes(op="placeholder"))):
        if not is_number(node):
            kept.append(position)
            continue
        first = min((order[user] for user in node.users), default=0)
        tensors = (n for n in order if order[n] < first and isinstance(n.meta.get("val"), torch.Tensor))
        places = ((n, d) for n, d, size in _sizes(tensors) if size.node.expr == node.meta["val"].node.expr)
        owner, dim = next(places, (None, None))
        if owner is None:
            kept.append(position)
            read, dtype = _READ[type(node.meta["val"])]
            with graph.inserting_before(begin):
                number = graph.call_function(read, (node,))
            number.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(number)
            number.args = (node,)  # which the line before has replaced, too
            node.meta["val"] = torch.empty((), dtype=dtype)
            continue
        with graph.inserting_before(begin if owner.op == "placeholder" else owner.next):
            node.replace_all_uses_with(_size(graph, owner, dim))
        graph.erase_node(node)
    return kept


def with_fixed_sizes(node: fx.Node) -> fx.Node:
    """Return a copy of an operation, in a graph of its own, with the sizes that it was traced with."""
    graph = fx.Graph()
    operands: dict[fx.Node, Any] = {}
    with FakeTensorMode():
        for operand in node.all_input_nodes:
            value = operands[operand] = _fixed(operand.meta["val"])
            if isinstance(value, torch.Tensor):
                operands[operand] = graph.placeholder(operand.name)
                operands[operand].meta["val"] = value
        copy = graph.node_copy(node, operands.__getitem__)
        copy.meta = {"val": fx.node.map_aggregate(node.meta["val"], _fixed)}
    return copy


def _fixed(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes, strides = ([_hint(n) for n in numbers] for numbers in (value.shape, value.stride()))
        return torch.empty_strided(sizes, strides, dtype=value.dtype)
    return _hint(value)


def _hint(number: Any) -> Any:
    """Return the size or number with which a graph was traced."""
    return number.node.hint if isinstance(number, (torch.SymInt, torch.SymFloat)) else number
