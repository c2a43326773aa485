"""Tensors without elements, on which torch-mlir fails or crashes: operations that make them become constants."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
_CREATED = frozenset({aten.full.default, aten.empty.memory_format, aten.empty_strided.default})
_PRODUCTS = frozenset({aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default})
"""Sums of products, which are 0 without any."""


def without_empties(graph: fx.Graph) -> None:
    """Replace the operations of a graph whose result has no elements, and products over none."""
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or node.target in _CREATED or not isinstance(value, torch.Tensor):
            continue
        if not all(isinstance(size, int) for size in value.shape) or _is_effect(node):
            continue
        if value.numel() == 0 or (node.target in _PRODUCTS and any(map(_is_empty, node.all_input_nodes))):
            with graph.inserting_before(node):
                made = graph.call_function(aten.full.default, (list(value.shape), 0), {"dtype": value.dtype})
            made.meta = {**node.meta, "val": torch.empty_like(value, memory_format=torch.contiguous_format)}
            node.replace_all_uses_with(made)
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _is_effect(node: fx.Node) -> bool:
    """Whether a tensor stands for the effect of an operation, which numc refuses."""
    return any(isinstance(operand.target, torch._ops.HigherOrderOperator) for operand in node.all_input_nodes)


def _is_empty(node: Any) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(isinstance(size, int) and size == 0 for size in value.shape)
