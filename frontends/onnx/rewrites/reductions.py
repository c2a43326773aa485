"""Reductions of tensors without elements, and results without elements."""

from __future__ import annotations

import numpy as np
import onnx

from numc.frontends.onnx.rewrites.node import Node, RefusedError
from numc.frontends.onnx.rewrites.structure.functions import expand

# What each reduction of no elements gives.
_OF_NOTHING = {
    "ReduceL1": 0.0,
    "ReduceL2": 0.0,
    "ReduceLogSum": -np.inf,
    "ReduceLogSumExp": -np.inf,
    "ReduceMax": -np.inf,
    "ReduceMean": np.nan,
    "ReduceMin": np.inf,
    "ReduceProd": 1.0,
    "ReduceSum": 0.0,
    "ReduceSumSquare": 0.0,
}
_OPTIONS = {"keepdims": 1, "noop_with_empty_axes": 0}


def reduce(node: Node) -> None:
    """Reductions of no elements have a constant result."""
    operator, source = node.proto.op_type, node.input(0)
    shape = node.known_shape(source)
    if 0 not in (shape or ()):
        if operator == "ReduceMean" and node.dtype(source) and not node.is_float(source):
            _integer_mean(node)
        elif operator == "ReduceProd" and shape is not None and None in shape:
            _product_of_free_sizes(node)
        return
    dtype, axes = onnx.helper.tensor_dtype_to_np_dtype(node.dtype(source)), _axes(node)
    value = float(_OF_NOTHING[operator] > 0) if dtype == np.bool_ else _OF_NOTHING[operator]
    if axes is None or (dtype.kind in "iub" and not np.isfinite(value)):
        raise RefusedError("it reduces a dimension of size 0")
    kept = [1 if n in axes else size for n, size in enumerate(node.sizes(source))]
    if not node.attribute("keepdims", 1):
        kept = [size for n, size in enumerate(kept) if n not in axes]
    node.op("Expand", node.constant(value, dtype), node.list_of(kept), to=node.output(0))


def _axes(node: Node) -> list[int] | None:
    """The axes along which a node reduces, from 0; None if a run computes them."""
    rank, listed = node.rank(node.input(0)), node.constants.get(node.input(1))
    if listed is None and node.input(1):
        return None
    chosen = [] if listed is None else listed.reshape(-1).tolist()
    if not chosen and not node.attribute("noop_with_empty_axes", 0):
        return list(range(rank))
    return sorted(axis % rank for axis in chosen)


AXIS = "numc.axis"
"""The attribute of a ReduceProd along one axis, of free sizes, with the axis: torch-mlir has it for fixed ones only."""


def _product_of_free_sizes(node: Node) -> None:
    axes = _axes(node)
    if axes is None or (len(axes) == 1 and node.attribute(AXIS, None) is not None):
        return
    value, keeps = node.input(0), bool(node.attribute("keepdims", 1))
    for axis in axes:
        value = node.op("ReduceProd", value, node.ints(axis))
        node.made[-1].attribute.append(onnx.helper.make_attribute(AXIS, axis))
    if keeps or not axes:
        node.op("Identity", value, to=node.output(0))
    else:
        node.op("Squeeze", value, node.ints(*axes), to=node.output(0))


def _integer_mean(node: Node) -> None:
    """The mean of integers, cut off to an integer as in the reference of ONNX; torch-mlir has none."""
    source, one = node.input(0), node.constant(1, np.int64)
    names = ("keepdims", "noop_with_empty_axes")
    attributes = {name: value for name in names if (value := node.attribute(name, None)) is not None}
    dtype, word = node.dtype(source), onnx.TensorProto.INT64
    wide = dtype if dtype == onnx.TensorProto.UINT64 else word  # the sum may be beyond the integers of the type
    total = node.op("ReduceSum", node.cast(source, wide), *node.proto.input[1:], **attributes)
    each = node.op("Div", node.op("Size", source), node.op("Max", node.op("Size", total), one))
    count = node.cast(node.op("Max", each, one), wide)  # free sizes may be 0
    node.cast(node.op("Div", total, count), dtype, to=node.output(0))


def log_sum_exp(node: Node) -> None:
    """ReduceLogSumExp: torch-mlir mixes up its types. The largest number is taken out of the sum."""
    reduce(node)
    source, axes = node.input(0), node.input(1)
    if node.made:
        return
    if not axes and node.attribute("noop_with_empty_axes", 0):
        node.op("Identity", source, to=node.output(0))
        return
    axis_inputs = [axes] if axes else []
    most = node.op("ReduceMax", source, *axis_inputs)
    finite = node.op("Where", node.op("IsInf", most), node.like(0, source), most)
    total = node.op("ReduceSum", node.op("Exp", node.op("Sub", source, finite)), *axis_inputs)
    log_sum = node.op("Add", node.op("Log", total), finite)
    if node.attribute("keepdims", 1):
        node.op("Identity", log_sum, to=node.output(0))
    else:
        node.op("Squeeze", log_sum, axes or node.ints(*range(node.rank(source))), to=node.output(0))


def expanded_reduce(node: Node) -> None:
    """Reductions that torch-mlir does wrongly over some axes are written with ReduceSum."""
    reduce(node)
    if node.made:
        return
    if node.proto.op_type == "ReduceL2" and node.is_float(source := node.input(0)):
        # ONNX's function has the root in float32, beyond which sums of float64 are.
        options = {name: node.attribute(name, default) for name, default in _OPTIONS.items()}
        squares = node.op("Mul", source, source)
        total = node.op("ReduceSum", squares, *node.proto.input[1:], **options)
        node.op("Sqrt", total, to=node.output(0))
        return
    expand(node)


def without_elements(node: Node) -> None:
    """A node whose results have no elements: nothing is computed."""
    results = [(name, node.known_shape(name)) for name in node.proto.output if name]
    if any(shape is None or None in shape or 0 not in shape for _, shape in results):
        return
    for name, shape in results:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(node.dtype(name))
        node.op("Identity", node.constant(np.zeros(shape or (), dtype), dtype), to=name)
