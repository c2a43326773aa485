"""Constant folding of ONNX graphs, restricted to nodes that move data or compute integers.

Float arithmetic is not folded, because the user chooses the operators that multiply and add; only that of the sizes and
the numbers of steps on which the structure of a model depends is. Runs in the worker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import onnx

from numc.frontends.onnx.carriers.carried import CARRIED
from numc.frontends.onnx.folding.evaluate import SHOWN, Reference
from numc.frontends.onnx.folding.partial_sizes import PartialSizes
from numc.frontends.onnx.folding.types import Types
from numc.frontends.onnx.reading.budget import Budget
from numc.frontends.onnx.reading.read import origin
from numc.frontends.onnx.reading.structure import structural_values
from numc.frontends.onnx.reading.tensors import MAX_ELEMENTS
from numc.support.errors import NumcError

_MOVES = {
    "Concat", "ConstantOfShape", "EyeLike", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "OneHot", "Reshape", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze", "Tile",
    "Transpose", "Trilu", "Unsqueeze",
}  # fmt: skip
_INTEGERS = {
    "Abs", "Add", "And", "Cast", "Clip", "CumSum", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceSum", "Sign", "Sub", "Sum", "Where", "Xor",
}  # fmt: skip
_SIZES = {"Ceil", "Exp", "Floor", "Log", "Mean", "Pow", "Reciprocal", "ReduceMean", "Relu", "Round", "Sqrt"}
_BYTES = (np.int8, np.uint8)
_FLOATS = (np.float32, np.float64)
_LARGE = 64
_GROWING = {"Expand", "Tile", "OneHot", "EyeLike"}

Array = npt.NDArray[np.generic]


def is_weight(value: Array) -> bool:
    """Whether a constant of floats or bytes is large enough to be an argument of the function instead."""
    return value.dtype in (*_FLOATS, *_BYTES) and value.size >= _LARGE


def fold(
    graph: onnx.GraphProto, constants: dict[str, Array], opsets: Iterable[onnx.OperatorSetIdProto], budget: Budget
) -> int:
    """Evaluate the nodes that only move constants or compute integers; return the number of nodes removed.

    Their outputs are added to `constants`. The output of ConstantOfShape is a view of one element, whatever its size.
    Raises NumcError before the constants would take more than `budget` allows.
    """
    types, reference = Types(graph, constants, opsets), Reference(opsets, budget)
    partial = PartialSizes(constants, types, reference)
    outputs = {value.name for value in graph.output}
    structure = structural_values(graph.node)
    rest = []
    for node in graph.node:
        decides = not structure.isdisjoint(node.output)
        values = None
        if outputs.isdisjoint(node.output):
            values = _evaluate(node, constants, types, reference, decides) or partial.evaluate(node)
        if values is None:
            rest.append(node)
            types.infer(node)
        else:
            constants.update(zip(node.output, values, strict=False))
            types.became_constants(node.output)
    folded = len(graph.node) - len(rest)
    del graph.node[:]
    graph.node.extend(rest)
    return folded


def _evaluate(
    node: onnx.NodeProto,
    constants: dict[str, Array],
    types: Types,
    reference: Reference,
    decides: bool,
) -> list[Array] | None:
    """Return the results of a node, None if it stays. decides: whether the structure of the model depends on them."""
    if node.op_type == "Size" and node.input[0] not in constants:
        sizes = types.sizes(node.input[0])
        return None if sizes is None else [np.array(math.prod(sizes), dtype=np.int64)]
    foldable = _MOVES | _INTEGERS | (_SIZES if decides else set())
    if node.op_type not in foldable or not all(name in constants or not name for name in node.input):
        return None
    feeds = {name: constants[name] for name in node.input if name}
    if node.op_type == "ConstantOfShape":
        return [_splat(node, next(iter(feeds.values()), np.zeros(0, dtype=np.int64)))]
    if node.op_type not in _MOVES and not all(_is_foldable(value, decides) for value in feeds.values()):
        return None
    if node.op_type == "Cast" and _rounds_twice(node, feeds[node.input[0]]):
        return None
    if node.op_type in _GROWING and any(value.size > 2**16 for value in feeds.values()):
        return None
    return reference.evaluate(node, feeds)


def _is_foldable(value: Array, decides: bool) -> bool:
    """Whether arithmetic on a constant is folded: on integers, and on a few floats that decide about the structure.

    A weight of bytes stays one: its elements are known to be small, and take a byte each.
    """
    if value.dtype.kind in "iub":
        return decides or not is_weight(value)
    return decides and value.size <= SHOWN and value.dtype.kind == "f"


def _rounds_twice(cast: onnx.NodeProto, value: Array) -> bool:
    """Whether the reference of onnx converts to a narrower float by way of float32."""
    to = next((a.i for a in cast.attribute if a.name == "to"), 0)
    return to in CARRIED and CARRIED[to].carrier == onnx.TensorProto.FLOAT and value.dtype.itemsize >= 4


def _splat(node: onnx.NodeProto, shape: Array) -> Array:
    sizes = [int(size) for size in shape.reshape(-1)]
    if any(size < 0 for size in sizes) or math.prod(sizes) > MAX_ELEMENTS:
        raise NumcError(f"node '{origin(node)}' (ConstantOfShape) asks for shape {sizes}: sizes must not be negative "
                        f"and a tensor has at most {MAX_ELEMENTS} elements")  # fmt: skip
    value = np.zeros(1, dtype=np.float32)
    for attribute in node.attribute:
        if attribute.name == "value":
            value = onnx.numpy_helper.to_array(attribute.t).reshape(-1)
    if value.size != 1 or value.dtype.kind not in "iubfV":
        raise NumcError(f"node '{origin(node)}' (ConstantOfShape): its value must be one number or bool")
    return np.broadcast_to(value.reshape(()), sizes)
