"""Evaluation of single ONNX nodes by the reference of onnx, within the memory that a model may ask for."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from numc.frontends.onnx.reading.budget import Budget
from numc.frontends.onnx.reading.read import origin

SHOWN = 64
"""Shape inference sees the values of constants of at most this many elements, such as shapes."""
# Their results can have more elements than pairs, triples, ... of elements of their operands are.
_GROWING = {"EyeLike", "Expand", "NonZero", "OneHot", "Range", "Tile"}
_WIDEST = 16
"""No number has more bytes."""

Array = npt.NDArray[np.generic]


class Reference:
    """The reference of onnx for the nodes of a graph. What a model computes of sizes many times is computed once."""

    def __init__(self, opsets: Iterable[onnx.OperatorSetIdProto], budget: Budget) -> None:
        """`budget` is asked before results are made, and they are added to it."""
        self._opsets, self._budget = list(opsets), budget
        self._versions = {opset.domain: opset.version for opset in self._opsets}
        self._known: dict[tuple[Hashable, ...], list[Array] | None] = {}

    def evaluate(self, node: onnx.NodeProto, feeds: Mapping[str, Array]) -> list[Array] | None:
        """Return the results of a node for values of its operands; None if the reference cannot compute it.

        Raises NumcError before the results would take more than the budget allows.
        """
        sizes = [value.size for value in feeds.values()]
        size = _WIDEST * math.prod(1 + size for size in sizes)
        if node.op_type in _GROWING or not all(sizes) or not self._budget.has_room(size):
            size = _size(node, feeds, self._opsets)
        self._budget.check_constants(f"node '{origin(node)}' ({node.op_type})", self._budget.made + size)
        if max(sizes, default=0) > SHOWN or any(value.dtype.hasobject for value in feeds.values()):
            outputs = self._computed(node, feeds)
        else:
            key = _key(node, feeds)
            if key not in self._known:
                self._known[key] = self._computed(node, feeds)
            outputs = self._known[key]
        if outputs is not None:
            self._budget.made += sum(value.nbytes for value in outputs)
        return outputs

    def _computed(self, node: onnx.NodeProto, feeds: Mapping[str, Array]) -> list[Array] | None:
        graph = onnx.GraphProto(node=[node], output=[onnx.ValueInfoProto(name=name) for name in node.output if name])
        try:
            values = ReferenceEvaluator(graph, opsets=self._versions).run(None, dict(feeds))
        except Exception:
            # Not every version of an operator has a reference. The node stays for shape inference and the importer.
            return None
        if len(values) != len(node.output) or not all(isinstance(value, (np.ndarray, np.generic)) for value in values):
            return None
        return [np.asarray(value) for value in values]


def _key(node: onnx.NodeProto, feeds: Mapping[str, Array]) -> tuple[Hashable, ...]:
    """All that the results of a node depend on."""
    values = (feeds.get(name) for name in node.input)
    operands = [None if value is None else (value.dtype, value.shape, value.tobytes()) for value in values]
    attributes = [attribute.SerializeToString(deterministic=True) for attribute in node.attribute]
    return node.domain, node.op_type, len(node.output), *attributes, *operands


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
        tensor_type = value.type.tensor_type
        if tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor_type.shape.dim):
            width = onnx.helper.tensor_dtype_to_np_dtype(tensor_type.elem_type).itemsize
            total += width * math.prod(dim.dim_value for dim in tensor_type.shape.dim)
    return total
