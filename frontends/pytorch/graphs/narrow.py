"""Graphs on narrow tensors (bfloat16, float16, float8, uint8) as graphs that compute in float32 and int32.

An operation reads its operands widened, computes in float32, and its result is rounded to its dtype once: so eager
torch computes on the CPU. torch-mlir would lower an operation on narrow tensors to several, each of which rounds. A
rounding is a conversion to the dtype and back. Of uint8, which torch-mlir takes for signed in some operations, the low
bits are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

from numc.numerics.dtypes import NARROW
from numc.numerics.formats.rounding import round_real

aten, prims = torch.ops.aten, torch.ops.prims
NARROW_DTYPES: Mapping[torch.dtype, str] = {getattr(torch, name): name for name in NARROW}
_WIDE: Mapping[torch.dtype, torch.dtype] = {
    **dict.fromkeys(NARROW_DTYPES, torch.float32),
    torch.uint8: torch.int32,
}
# Operations beside views whose results are values that their operands have.
_EXACT = frozenset(
    {
        *(aten.cat, aten.stack, aten.clone, aten.embedding, aten.index, aten.index_select, aten.gather, aten.flip),
        *(aten.repeat, aten.relu, aten.neg, aten.abs, aten.amax, aten.amin, aten.maximum, aten.minimum),
        *(aten._unsafe_view, aten.max_pool2d_with_indices, aten.max_pool3d_with_indices),
    }
)
_COMPARISONS = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
# Numbers beside tensors are float32, but eager torch rounds these to the dtype first.
_ROUNDED_NUMBERS: Mapping[Any, tuple[int | str, ...]] = {
    aten.add.Tensor: (0, 1, "alpha"),
    aten.sub.Tensor: (0, 1, "alpha"),
    aten.pow.Tensor_Scalar: (1,),
    aten.pow.Scalar: (0,),
    aten.remainder.Scalar: (1,),
    aten.constant_pad_nd.default: (2,),
    **{packet.Scalar: (1,) for packet in _COMPARISONS},
}
# Of these it rounds a tensor of float32 without dimensions, too.
_ROUNDED_TENSORS = frozenset(
    {
        *(aten.add.Tensor, aten.sub.Tensor, aten.remainder.Tensor, aten.pow.Tensor_Tensor, aten.atan2.default),
        *(packet.Tensor for packet in _COMPARISONS),
    }
)

# Where the number is that all elements are.
_FILLED = {aten.full.default: 1, aten.full_like.default: 1, aten.scalar_tensor.default: 0}


def is_narrow(value: Any) -> bool:
    """Whether a value is a tensor of a narrow dtype."""
    return isinstance(value, torch.Tensor) and value.dtype in _WIDE


def widened(value: Any) -> Any:
    """Return what a node yields with float32 and int32 tensors for narrow ones."""
    return pytree.tree_map(lambda v: v.to(_WIDE[v.dtype]) if is_narrow(v) else v, value)


def in_wide(graph: fx.Graph, names: Mapping[fx.Node, str]) -> tuple[fx.Graph, Mapping[fx.Node, str]]:
    """Return a graph that computes in wide dtypes and rounds what is narrow, and the names of its nodes.

    Placeholders and results keep their dtypes. A graph without narrow tensors is returned as it is.
    """
    if not any(is_narrow(v) for node in graph.nodes for v in pytree.tree_leaves(node.meta.get("val"))):
        return graph, names
    wide = _Widened(names)
    for node in graph.nodes:
        wide.add(node)
    return wide.graph, wide.names


class _Widened:
    """The graph that computes in wide dtypes, as far as it is made; values: its nodes by those of the other graph."""

    def __init__(self, names: Mapping[fx.Node, str]) -> None:
        self.graph, self.names = fx.Graph(), dict[fx.Node, str]()
        self.values: dict[fx.Node, fx.Node] = {}
        self._given = names

    def add(self, node: fx.Node) -> None:
        """Append what a node of the other graph becomes."""
        if node.op == "output":
            self.graph.output(tuple(self._as_given(result) for result in node.args[0]))
            return
        value = node.meta.get("val")
        if node.op == "placeholder":
            made = self.graph.node_copy(node)
            self.values[node] = self._converted(node, made, _WIDE[value.dtype]) if is_narrow(value) else made
            return
        if node.target is prims.convert_element_type.default and _is_rounding(node.args[0], value):
            made = self.values[node.args[0]]
        else:
            made = self._computed(node)
        self.values[node] = self._rounded(node, made) if is_narrow(value) and not _keeps(node) else made

    def _as_given(self, node: Any) -> Any:
        if not isinstance(node, fx.Node):
            return node
        value = node.meta.get("val")
        return self._converted(node, self.values[node], value.dtype) if is_narrow(value) else self.values[node]

    def _computed(self, node: fx.Node) -> fx.Node:
        dtype = _narrow_operand(node)
        made = self.graph.node_copy(node, lambda operand: self._operand(node, operand, dtype))
        made.args, made.kwargs = map_aggregate(made.args, _wide_dtype), map_aggregate(made.kwargs, _wide_dtype)
        for parameter in _ROUNDED_NUMBERS.get(node.target, ()):
            if isinstance(parameter, int) and parameter < len(made.args):
                made.update_arg(parameter, _in_dtype(made.args[parameter], dtype))
            elif isinstance(parameter, str) and parameter in made.kwargs:
                made.update_kwarg(parameter, _in_dtype(made.kwargs[parameter], dtype))
        made.meta = {"val": widened(node.meta.get("val"))}
        filled = _FILLED.get(node.target)
        if filled is not None and node.meta["val"].dtype in NARROW_DTYPES and _is_long(made.args[filled]):
            made.update_kwarg("dtype", torch.float64)  # so that the number is rounded once
            made.meta = {"val": made.meta["val"].double()}
        self._name(node, made)
        return made

    def _operand(self, node: fx.Node, operand: fx.Node, dtype: torch.dtype | None) -> fx.Node:
        """Return what an operand of a node has become, rounded to the dtype of the others where eager torch does so."""
        value, made = operand.meta.get("val"), self.values[operand]
        if dtype is None or node.target not in _ROUNDED_TENSORS or not isinstance(value, torch.Tensor) or value.dim():
            return made
        if value.dtype != torch.float32:
            return made
        return self._converted(operand, self._converted(operand, made, dtype), torch.float32)

    def _rounded(self, node: fx.Node, value: fx.Node) -> fx.Node:
        dtype = node.meta["val"].dtype
        if not dtype.is_floating_point:
            made = self.graph.call_function(aten.bitwise_and.Scalar, (value, torch.iinfo(dtype).max))
            made.meta = {"val": value.meta["val"]}
            self._name(node, made)
            return made
        return self._converted(node, self._converted(node, value, dtype), torch.float32)

    def _converted(self, node: fx.Node, value: fx.Node, dtype: torch.dtype) -> fx.Node:
        made = self.graph.call_function(prims.convert_element_type.default, (value, dtype))
        made.meta = {"val": value.meta["val"].to(dtype)}
        self._name(node, made)
        return made

    def _name(self, node: fx.Node, made: fx.Node) -> None:
        if node in self._given:
            self.names[made] = self._given[node]


def _is_rounding(node: Any, result: Any) -> bool:
    """Whether a conversion of what a node yields only rounds it: of any number, to a narrow floating-point dtype."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor) or not is_narrow(result) or value.is_complex():
        return False
    return bool(result.dtype.is_floating_point and value.dtype != torch.bool)


def _narrow_operand(node: fx.Node) -> torch.dtype | None:
    """Return the narrow floating-point dtype in which eager torch computes an operation; None if it is another."""
    values = [v for n in node.all_input_nodes for v in pytree.tree_leaves(n.meta.get("val"))]
    dtypes = {v.dtype for v in values if isinstance(v, torch.Tensor) and v.dim() and v.dtype.is_floating_point}
    if not dtypes:
        dtypes = {v.dtype for v in values if isinstance(v, torch.Tensor) and v.dtype.is_floating_point}
    return next(iter(dtypes)) if len(dtypes) == 1 and dtypes <= set(NARROW_DTYPES) else None


def _in_dtype(number: Any, dtype: torch.dtype | None) -> Any:
    """Return a number as a narrow dtype has it."""
    if not isinstance(number, float) or dtype is None:
        return number
    return round_real(number, NARROW[NARROW_DTYPES[dtype]].stored)


def _is_long(number: Any) -> bool:
    """Whether a float32 does not hold a number."""
    return isinstance(number, float) and math.isfinite(number) and bool(float(np.float32(number)) != number)


def _wide_dtype(argument: Any) -> Any:
    return _WIDE.get(argument, argument) if isinstance(argument, torch.dtype) else argument


def _keeps(node: fx.Node) -> bool:
    """Whether an operation returns values that its operands have, all of its dtype."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not (target.is_view or target.overloadpacket in _EXACT):
        return False
    dtype = node.meta["val"].dtype
    if not dtype.is_floating_point:
        return bool(target.is_view)
    operands = [v for n in node.all_input_nodes for v in pytree.tree_leaves(n.meta.get("val"))]
    return all(v.dtype == dtype for v in operands if isinstance(v, torch.Tensor) and v.dtype.is_floating_point)
