"""Sizes that depend on data: selections by a mask become selections of the places where the mask is true.

torch.export gives such a size a symbol, and every tensor that has it one dimension of that symbol. The places are found
by an operator of numc, whose size a run knows; what is selected is what an index by them selects. Checks of these
sizes, and of numbers that only checks read, become those of a run.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

import sympy
import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from numc.frontends.pytorch.operators import OF_MODEL, OF_NONE, places, repeats, require, size_of

aten = torch.ops.aten


def by_places(graph: fx.Graph) -> None:
    """Replace the selections by masks of a graph by selections of places, and its checks by those of a run."""
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if node.target is aten.index.Tensor and (mask_index := _mask(node)) is not None:
                _selection(node, node.args[0], *mask_index)
            elif node.target is aten.masked_select.default:
                _selection(node, *_broadcast(node))
            elif node.target is aten.nonzero.default:
                _coordinates(node)
            elif node.target is aten.repeat_interleave.Tensor:
                by_repeats(node)
            elif node.target in _EXTREMES:
                _check_some(node)
    most = _most(graph)
    for node in list(graph.nodes):
        if node.target in _RANGES:
            graph.erase_node(node)
        elif node.target is aten._assert_scalar.default:
            _check(node, most)
        elif node.target in (aten._assert_async.default, aten._assert_async.msg):
            with graph.inserting_before(node):
                if (value := _scalar(node, node.all_input_nodes[0])) is not None:
                    _call(node, require, value, OF_MODEL)
                    graph.erase_node(node)


def by_repeats(node: fx.Node) -> None:
    """Replace aten.repeat_interleave of numbers of repetitions, whose sum a run finds; torch may know it already."""
    node.target, node.args, node.kwargs = repeats, node.args[:1], {}


def _most(graph: fx.Graph) -> dict[Any, int]:
    """The largest numbers of places that there can be, by the symbol of their number, where they are fixed."""
    masks = graph.find_nodes(op="call_function", target=places)
    rows = [(node.meta["val"].shape[0], node.args[0].meta["val"].shape[0]) for node in masks]
    return {size.node.expr: most for size, most in rows if isinstance(size, torch.SymInt) and isinstance(most, int)}


def sizes(graph: fx.Graph) -> set[sympy.Symbol]:
    """Return the symbols of the sizes that depend on data and that a run finds."""
    symbols: set[sympy.Symbol] = set()
    for target in (places, repeats):
        for node in graph.find_nodes(op="call_function", target=target):
            symbols |= free_unbacked_symbols(node.meta["val"])
    return symbols


def _mask(node: fx.Node) -> tuple[int, fx.Node] | None:
    """The first dimension that an index by one mask is about, and the mask; None for other indices."""
    indices: Any = node.args[1]
    indexed = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(indexed) != 1 or indexed[0][1].meta["val"].dtype != torch.bool:
        return None
    return indexed[0]


def _broadcast(node: fx.Node) -> tuple[fx.Node, int, fx.Node]:
    source, mask = node.all_input_nodes[0], node.all_input_nodes[-1]
    shape = torch.broadcast_shapes(source.meta["val"].shape, mask.meta["val"].shape)
    sizes: list[Any] = []
    for d, size in enumerate(shape):
        # The operand whose dimension it is; of numbers, either.
        aligned = [(n, d - len(shape) + n.meta["val"].dim()) for n in (source, mask)]
        sizes.append(next(_size(node, n, at) for n, at in aligned if at >= 0 and n.meta["val"].shape[at] == size))
    wide = [
        operand if operand.meta["val"].shape == shape else _expanded(node, operand, sizes, shape)
        for operand in (source, mask)
    ]
    return wide[0], 0, wide[1]


def _expanded(node: fx.Node, source: fx.Node, sizes: list[Any], shape: torch.Size) -> fx.Node:
    made = node.graph.call_function(aten.expand.default, (source, sizes))
    made.meta = _about(node, source.meta["val"].expand(shape))
    return made


def _selection(node: fx.Node, source: Any, first: int, mask: fx.Node) -> None:
    """Let a node select the places of `source` where `mask`, of its dimensions from `first` on, is true."""
    rank = mask.meta["val"].dim()
    positions = _places(node, mask, node.meta["val"].shape[first])
    if rank != 1:
        sizes = [_size(node, source, d) for d in range(source.meta["val"].dim())]
        source = _reshaped(node, source, [*sizes[:first], -1, *sizes[first + rank :]])
    _replace(node, _call(node, aten.index_select.default, source, first, positions))


def _coordinates(node: fx.Node) -> None:
    """Let a node be a row of coordinates for every element that is not zero."""
    source = node.all_input_nodes[0]
    value, made = source.meta["val"], node.meta["val"]
    if value.dim() == 0:
        return
    mask = source if value.dtype == torch.bool else _call(node, aten.ne.Scalar, source, 0)
    positions = _places(node, mask, made.shape[0])
    columns: list[fx.Node] = []
    rest = positions
    for d in reversed(range(value.dim())):
        size = _size(node, source, d)
        column = rest if d == 0 else _call(node, aten.remainder.Scalar, rest, size)
        rest = rest if d == 0 else _call(node, aten.div.Scalar_mode, rest, size, rounding_mode="floor")
        columns.insert(0, _call(node, aten.unsqueeze.default, column, 1))
    _replace(node, columns[0] if len(columns) == 1 else _call(node, aten.cat.default, columns, 1))


def _places(node: fx.Node, mask: fx.Node, size: Any) -> fx.Node:
    """Emit the places where a mask is true, as many as `size` says, in the order of its elements."""
    row = mask if mask.meta["val"].dim() == 1 else _reshaped(node, mask, [-1])
    made = node.graph.call_function(places, (row,))
    mode = detect_fake_mode(node.meta["val"])
    assert mode is not None
    with mode:
        made.meta = _about(node, torch.empty((size,), dtype=torch.int64))
    return made


def _size(node: fx.Node, source: fx.Node, dim: int) -> Any:
    """A size of a tensor as an argument of an operation."""
    size = source.meta["val"].shape[dim]
    if isinstance(size, int):
        return size
    made = node.graph.call_function(aten.sym_size.int, (source, dim))
    made.meta = _about(node, size)
    return made


def _reshaped(node: fx.Node, source: fx.Node, shape: list[Any]) -> fx.Node:
    made = node.graph.call_function(aten.view.default, (source, shape))  # torch-mlir knows no strides
    made.meta = _about(node, source.meta["val"].reshape(fx.map_arg(shape, lambda size: size.meta["val"])))
    return made


def _call(node: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """Emit an operation where a node is."""
    made = node.graph.call_function(target, args, kwargs)
    made.meta = _about(node, target(*fx.map_arg(args, lambda given: given.meta["val"]), **kwargs))
    return made


def _about(node: fx.Node, value: Any) -> dict[str, Any]:
    """The known facts of the operation at a node, which yields a value."""
    return {**{key: known for key, known in node.meta.items() if key != "tensor_meta"}, "val": value}


def _replace(node: fx.Node, made: fx.Node) -> None:
    made.meta["val"] = node.meta["val"]  # its size has the symbol that others know
    node.replace_all_uses_with(made)
    node.graph.erase_node(node)


_RANGES = (aten.sym_constrain_range_for_size.default, aten.sym_constrain_range.default)
_ITEMS = (aten.item.default, aten._local_scalar_dense.default)
_TENSORS = {
    operator.add: aten.add.Tensor,
    operator.sub: aten.sub.Tensor,
    operator.mul: aten.mul.Tensor,
    operator.floordiv: partial(aten.div.Tensor_mode, rounding_mode="floor"),
    operator.mod: aten.remainder.Tensor,
    operator.ge: aten.ge.Tensor,
    operator.le: aten.le.Tensor,
    operator.gt: aten.gt.Tensor,
    operator.lt: aten.lt.Tensor,
    operator.eq: aten.eq.Tensor,
    operator.ne: aten.ne.Tensor,
    operator.and_: aten.logical_and.default,
    operator.or_: aten.logical_or.default,
    torch.sym_min: aten.minimum.default,
    torch.sym_max: aten.maximum.default,
    torch.sym_not: aten.logical_not.default,
}
"""Operations on sizes and numbers, as operations on tensors."""


_EXTREMES = frozenset(
    getattr(getattr(aten, name), overload)
    for name, overloads in {"amax": "default", "argmax": "default", "max": "default dim"}.items()
    for name in (name, name.replace("max", "min"))
    for overload in overloads.split()
)
"""Operations that torch refuses along dimensions without elements; their second argument is what they are along."""


def _check_some(node: fx.Node) -> None:
    """Let a run check that an extreme is one of some elements."""
    source = node.all_input_nodes[0]
    rank, dim = source.meta["val"].dim(), node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    dims = dim if isinstance(dim, (list, tuple)) else [] if dim is None else [dim]
    for d in dims or range(rank):
        if not isinstance(source.meta["val"].shape[d], int):
            some = _call(node, aten.ge.Scalar, _call(node, size_of, source, d % rank), 1)
            _call(node, require, some, OF_NONE)


def _check(node: fx.Node, most: Mapping[Any, int]) -> None:
    """Let a run check a condition on sizes and numbers, unless it cannot fail. What is no arithmetic on them stays."""
    condition = node.args[0]
    if not isinstance(condition, fx.Node) or _holds(condition, most):
        node.graph.erase_node(node)
        return
    with node.graph.inserting_before(node):
        if (value := _as_tensor(node, condition)) is not None:
            _call(node, require, value, OF_MODEL)
            node.graph.erase_node(node)


def _holds(condition: fx.Node, most: Mapping[Any, int]) -> bool:
    """Whether a condition is that a number of places is at least 0, or at most what there can be."""
    if condition.target not in (operator.ge, operator.le):
        return False
    size, bound = condition.args
    if not isinstance(size, fx.Node) or size.target is not aten.sym_size.int or not isinstance(bound, int):
        return False
    if condition.target is operator.ge:
        return bound <= 0
    return bound >= most.get(size.meta["val"].node.expr, bound + 1)


def _number(node: fx.Node, like: fx.Node, number: int) -> fx.Node:
    """Emit a number of int64 as a tensor of rank 0, as `like` is one."""
    return _call(node, aten.full_like.default, like, number, dtype=torch.int64)


def _scalar(node: fx.Node, source: fx.Node) -> fx.Node | None:
    """Emit the one element of a tensor of integers or bools as a tensor of rank 0; None for other tensors."""
    value = source.meta["val"]
    if value.dtype not in (torch.bool, torch.int64, torch.int32) or value.numel() != 1:
        return None
    scalar = source if value.dim() == 0 else _call(node, aten.view.default, source, [])
    return scalar if value.dtype != torch.int32 else _call(node, aten._to_copy.default, scalar, dtype=torch.int64)


def _as_tensor(node: fx.Node, value: Any) -> fx.Node | None:
    """Emit arithmetic on sizes and numbers as a tensor of rank 0; None for what is something else."""
    if not isinstance(value, fx.Node):
        return None
    if value.target is aten.sym_size.int:
        return _call(node, size_of, *value.args)
    if value.target in _ITEMS:
        return _scalar(node, value.all_input_nodes[0])
    operands = [operand if isinstance(operand, int) else _as_tensor(node, operand) for operand in value.args]
    like = next((operand for operand in operands if isinstance(operand, fx.Node)), None)
    if value.target not in (*_TENSORS, torch.sym_ite) or None in operands or like is None:
        return None
    operands = [_number(node, like, operand) if isinstance(operand, int) else operand for operand in operands]
    if value.target is torch.sym_ite:
        return _call(node, aten.where.self, *operands)
    target: Any = _TENSORS[value.target]
    if isinstance(target, partial):
        return _call(node, target.func, *operands, **target.keywords)
    return _call(node, target, *operands)
