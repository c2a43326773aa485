"""Evaluation of single ONNX nodes by the reference of onnx, within the memory that a model may ask for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from numc.frontends.onnx.budget import Budget
from numc.frontends.onnx.read import origin

SHOWN = 64
"""Shape inference sees the values of constants of at most this many elements, such as shapes."""
# Their results can have more elements than pairs, triples, ... of elements of their operands are.
_GROWING = {"EyeLike", "Expand", "NonZero", "OneHot", "Range", "Tile"}
_WIDEST = 16
"""No element has more bytes."""

Array = npt.NDArray[np.generic]


def evaluate(
    node: onnx.NodeProto, feeds: Mapping[str, Array], opsets: Iterable[onnx.OperatorSetIdProto], budget: Budget
) -> list[Array] | None:
    """Return the results of a node for values of its operands; None if the reference cannot compute it.

    Raises NumcError before the results would take more than `budget` allows; else they are added to it.
    """
    sizes = [value.size for value in feeds.values()]
    size = _WIDEST * math.prod(1 + size for size in sizes)
    if node.op_type in _GROWING or not all(sizes) or not budget.has_room(size):
        size = _size(node, feeds, opsets)
    budget.check_constants(f"node '{origin(node)}' ({node.op_type})", budget.made + size)
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.GraphProto(node=[node], output=outputs)
    try:
        values = ReferenceEvaluator(graph, opsets={o.domain: o.version for o in opsets}).run(None, dict(feeds))
    except Exception:
        # Not every version of an operator has a reference. The node stays for shape inference and the importer.
        return None
    if len(values) != len(node.output) or not all(isinstance(value, (np.ndarray, np.generic)) for value in values):
        return None
    found = [np.asarray(value) for value in values]
    budget.made += sum(value.nbytes for value in found)
    return found


def _size(node: onnx.NodeProto, feeds: Mapping[str, Array], opsets: Iterable[onnx.OperatorSetIdProto]) -> int:
    """The bytes of the results of a node, as far as their shapes can be inferred from its operands."""
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    outputs = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in node.output if n]
    small = [onnx.numpy_helper.from_array(value, name) for name, value in feeds.items() if value.size <= SHOWN]
    graph = onnx.helper.make_graph([node], "node", inputs, outputs, small)
    try:
        model = onnx.helper.make_model(graph, opset_imports=list(opsets))
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:
        return 0
    total = 0
    for value in inferred.graph.output:
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            width = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
            total += width * math.prod(dim.dim_value for dim in kind.shape.dim)
    return total
