"""The known types of values while the nodes of an ONNX graph are folded, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx.shape_inference import infer_node_outputs

from numc.frontends.onnx.folding.evaluate import SHOWN

Array = npt.NDArray[np.generic]


class Types:
    """The types of the values of a graph that is in topological order.

    Those in `graph` have been inferred before constants were folded. What follows of new constants is inferred from
    node to node, so that the fixed sizes behind them need no inference of the whole graph for each step of a chain.
    """

    def __init__(
        self, graph: onnx.GraphProto, constants: Mapping[str, Array], opsets: Iterable[onnx.OperatorSetIdProto]
    ) -> None:
        self._types = {value.name: value.type for value in [*graph.input, *graph.value_info, *graph.output]}
        self._constants = constants
        self._opsets = list(opsets)
        self._versions = {opset.domain: opset.version for opset in self._opsets}
        self._news: set[str] = set()

    def sizes(self, name: str) -> list[int] | None:
        """The sizes of a value; None if one of them is not fixed, or the rank is not known."""
        type_proto = self._types.get(name)
        return None if type_proto is None else _sizes(type_proto)

    def partial_sizes(self, name: str) -> list[int | None] | None:
        """The sizes of a value, None for those that are free; None if the rank is not known."""
        type_proto = self._types.get(name)
        return None if type_proto is None else _partial_sizes(type_proto)

    def became_constants(self, names: Iterable[str]) -> None:
        """Note values that are constants now."""
        self._news.update(names)

    def infer(self, node: onnx.NodeProto) -> None:
        """Infer the sizes of the results of a node, if they are not known, and more is known of its operands now."""
        if self._news.isdisjoint(node.input) or all(self.sizes(name) is not None for name in node.output if name):
            return
        if any(attribute.type in _GRAPHS for attribute in node.attribute):
            return
        names = list(filter(None, node.input))
        data = {n: self._constants[n] for n in names if n in self._constants and self._constants[n].size <= SHOWN}
        try:
            schema = onnx.defs.get_schema(node.op_type, self._versions[node.domain], node.domain)
            inferred = infer_node_outputs(
                schema,
                node,
                {name: self._type(name) for name in names},
                {name: onnx.numpy_helper.from_array(np.ascontiguousarray(v).reshape(v.shape), name)
                 for name, v in data.items()},
                opset_imports=self._opsets,
            )  # fmt: skip
        except Exception:
            return  # the inference of the whole graph says what is wrong
        for name, type_proto in inferred.items():
            if _sizes(type_proto) is not None:
                self._types[name] = type_proto
                self._news.add(name)

    def _type(self, name: str) -> onnx.TypeProto:
        if name in self._constants:
            value = self._constants[name]
            number = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            return onnx.helper.make_tensor_type_proto(number, value.shape)
        return self._types[name]


_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def _partial_sizes(kind: onnx.TypeProto) -> list[int | None] | None:
    if not kind.tensor_type.HasField("shape"):
        return None
    return [int(dim.dim_value) if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim]


def _sizes(kind: onnx.TypeProto) -> list[int] | None:
    sizes = _partial_sizes(kind)
    fixed = [size for size in sizes or () if size is not None]
    return None if sizes is None or len(fixed) < len(sizes) else fixed
