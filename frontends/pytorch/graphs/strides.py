"""Strides of eager torch, which as_strided reads: a decomposition may leave its result in another order of memory.

torch.export has noted them for every operation of the graph that it traces, before anything is decomposed.
"""

from __future__ import annotations

import copy
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from numc.frontends.pytorch.graphs.graph import Refusal, listed, path_of, source_of
from numc.frontends.pytorch.rewrites.views import order_of
from numc.support.errors import NumcError

aten = torch.ops.aten
_READERS = frozenset(
    {aten.as_strided.default, aten.as_strided_.default, aten.as_strided_copy.default, aten.as_strided_scatter.default}
)
_ATTENTION = aten.scaled_dot_product_attention.default
_CONTIGUOUS = frozenset(
    {aten.contiguous.default, aten.linear.default, aten.matmul.default, aten.mm.default, aten.bmm.default}
    | {aten.addmm.default, aten.layer_norm.default}
)
"""Operations whose result is contiguous, whatever the strides of their operands are."""


def with_eager_strides(program: ExportedProgram) -> ExportedProgram:
    """Return a program in which every new tensor is put into eager torch's order of memory, if an as_strided reads any.

    Raises NumcError if that order is not known, or what is read has gaps.
    """
    readers = [node for node in program.graph.nodes if node.target in _READERS]
    if not readers:
        return program
    unknown = _chosen_later(program.graph)
    refused = [refusal for node in readers if (refusal := _refusal(node, unknown))]
    if refused:
        raise NumcError(listed(refused))
    graph = copy.deepcopy(program.graph)
    for node in list(graph.nodes):
        if _is_new(node):
            _put_in_order(node)
    return program._update(fx.GraphModule(program.graph_module, graph), program.graph_signature)


def _chosen_later(graph: fx.Graph) -> set[fx.Node]:
    """Return what may have another order of memory than the trace: eager torch chooses how it computes attention."""
    chosen: set[fx.Node] = set()
    for node in graph.nodes:
        known = node.target in _CONTIGUOUS or node.kwargs.get("memory_format") is torch.contiguous_format
        if node.target is _ATTENTION or (not known and chosen.intersection(node.all_input_nodes)):
            chosen.add(node)
    return chosen


def _refusal(node: fx.Node, unknown: set[fx.Node]) -> Refusal | None:
    source = node.all_input_nodes[0]
    reason = None
    if source in unknown:
        reason = "reads memory whose order torch chooses when it computes scaled_dot_product_attention"
    elif not _is_dense(base := _base(source).meta["val"]):
        reason = f"reads memory with gaps: its tensor has the strides {tuple(base.stride())}"
    what = "copy its operand: .clone(memory_format=torch.contiguous_format)"
    return Refusal(str(node.target), path_of(node), source_of(node), reason, what) if reason else None


def _base(node: fx.Node) -> fx.Node:
    """Return the node that made the memory of a node's tensor."""
    while node.op == "call_function" and not _is_new(node):
        node = node.all_input_nodes[0]
    return node


def _is_new(node: fx.Node) -> bool:
    """Whether a node is a tensor that shares no memory with its operands."""
    source = node.args[0] if node.target is getitem else node
    if not isinstance(source, fx.Node) or not isinstance(source.target, torch._ops.OpOverload):
        return False
    made = isinstance(node.meta.get("val"), torch.Tensor)
    return made and all(result.alias_info is None for result in source.target._schema.returns)


def _is_dense(value: Any) -> bool:
    free = not all(isinstance(n, int) for n in (*value.shape, *value.stride()))
    return free or value.numel() == 0 or bool(value.permute(order_of(value)).is_contiguous())


def _put_in_order(node: fx.Node) -> None:
    """Let the users of a node read a copy of it that has the strides of its value in the trace.

    The last step keeps strides: torch does not write by strides through a view, which a permutation is.
    """
    value = node.meta["val"]
    if not all(isinstance(n, int) for n in value.shape) or value.dim() < 2 or not _is_dense(value):
        return
    order, made = order_of(value), node
    steps: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = (
        (aten.permute.default, (order,), {}),
        (aten.clone.default, (), {"memory_format": torch.contiguous_format}),
        (aten.permute.default, ([order.index(n) for n in range(len(order))],), {}),
        (aten.clone.default, (), {"memory_format": torch.preserve_format}),
    )
    users = list(node.users)
    for target, args, kwargs in steps:
        with node.graph.inserting_after(made):
            made = node.graph.call_function(target, (made, *args), kwargs)
            made.meta = dict(node.meta)
    for user in users:
        user.replace_input_with(node, made)
    node.name, made.name = f"{node.name}_before", node.name  # results are known by their names
