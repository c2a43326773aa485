"""The order of dimensions in memory: a program takes and returns dense tensors, torch has permuted views of such."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

aten = torch.ops.aten


def results_by_strides(graph: fx.Graph, output: fx.Node) -> dict[int, list[int]]:
    """Make dense the results that permute the dimensions of a dense tensor; return how to permute them back, by number.

    A result that repeats elements or has gaps, such as an expanded tensor or a slice, becomes dense in the order of its
    dimensions.
    """
    results, orders = list(output.args[0]), {}
    for number, node in enumerate(results):
        value = node.meta["val"]
        if (order := _by_strides(value)) is None:
            continue
        orders[number] = inverse(order)
        with graph.inserting_before(output):
            results[number] = graph.call_function(aten.permute.default, (node, order))
        results[number].meta = {"numc": node.meta["numc"], "val": value.permute(order)}
    output.args = (tuple(results),)
    return orders


def inputs_by_strides(graph: fx.Graph, inputs: Sequence[fx.Node]) -> dict[int, list[int]]:
    """Let a graph take permuted dense tensors in the order of their strides; return these orders, by number.

    The operations of the graph read them where they are, and nobody copies them before. Kernels read adjacent elements
    of the last dimension in vectors, and transpose matrices as they pack them, whatever lies between their columns;
    inputs whose adjacent elements are in a dimension before these two are copied.
    """
    orders = {}
    for number, node in enumerate(inputs):
        value, readers = node.meta.get("val"), [user for user in node.users if "numc" in user.meta]
        if not isinstance(value, torch.Tensor) or not readers or any(isinstance(n, torch.SymInt) for n in value.shape):
            continue
        order, last = _by_strides(value), value.dim() - 1
        if order is None or order[-1] < last - 1:
            continue
        orders[number] = order
        # Codes become float32 right before what reads them first, this permutation (passes/explicit/stored_codes.py).
        with graph.inserting_before(min(node.users)):
            permuted = graph.call_function(aten.permute.default, (node, inverse(order)))
        permuted.meta = {"numc": readers[0].meta["numc"], "val": value}
        for user in list(node.users):
            if user is not permuted:
                user.replace_input_with(node, permuted)
        node.meta = {"val": value.permute(order)}
    return orders


def inverse(order: Sequence[int]) -> list[int]:
    """Return the order that undoes another one."""
    return [order.index(d) for d in range(len(order))]


def _by_strides(value: torch.Tensor) -> list[int] | None:
    """Return the dimensions from the largest stride on, of a dense tensor in which that is another order."""
    if value.is_contiguous() or torch.empty_like(value).stride() != value.stride():
        return None
    return sorted(range(value.dim()), key=lambda d: (-value.stride(d), -value.shape[d]))
