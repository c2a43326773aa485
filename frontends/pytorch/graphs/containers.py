"""Dtypes of which a program only moves the bits: tensors of float8_e8m0fnu and float4_e2m1fn_x2 as those of uint8.

Libraries of quantised weights keep scales and packed pairs of elements in them, and compute on their bits: they view
them as uint8, of which every element has the same size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

aten, prims = torch.ops.aten, torch.ops.prims
CONTAINERS = frozenset({torch.float8_e8m0fnu, torch.float4_e2m1fn_x2})
_MOVES = frozenset({aten.clone, aten.cat, aten.stack, aten.index_select, aten._unsafe_view, aten.repeat})


def as_bytes(program: ExportedProgram) -> None:
    """Let weights of these dtypes, and what only moves them, be uint8; what computes with them keeps its dtype.

    A graph without them stays as it is.
    """
    weights = {
        spec.arg.name: spec.target
        for spec in program.graph_signature.input_specs
        if spec.kind != InputKind.USER_INPUT and spec.target is not None
    }
    for node in list(program.graph.nodes):
        if not _holds(node.meta.get("val")):
            if node.target is aten.view.dtype and node.meta["val"].dtype == torch.uint8:
                _leave_out(program.graph, node, node.args[0])
            continue
        if node.op == "placeholder" and node.name in weights:
            _store(program, weights[node.name])
        elif node.target is aten.view.dtype and node.args[0].meta["val"].dtype == torch.uint8:
            _leave_out(program.graph, node, node.args[0])
            continue
        elif not _moves(node):
            continue
        node.meta["val"] = pytree.tree_map(lambda v: v.view(torch.uint8) if _holds(v) else v, node.meta["val"])


def _holds(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in CONTAINERS


def _moves(node: fx.Node) -> bool:
    """Whether all that an operation reads of a tensor are bytes that it returns."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or any(_holds(n.meta.get("val")) for n in node.all_input_nodes):
        return False
    return target.is_view or target.overloadpacket in _MOVES


def _leave_out(graph: fx.Graph, node: fx.Node, same: Any) -> None:
    """Let an earlier node of the same bytes stand for one, unless that one still has another dtype."""
    if same.meta["val"].dtype == torch.uint8:
        node.replace_all_uses_with(same)
        graph.erase_node(node)


def _store(program: ExportedProgram, name: str) -> None:
    """Replace a weight by its bytes in the program, which shares it with others."""
    for attribute in ("_state_dict", "_constants"):
        stored = getattr(program, attribute)
        if _holds(stored.get(name)):
            setattr(program, attribute, {**stored, name: stored[name].view(torch.uint8)})
