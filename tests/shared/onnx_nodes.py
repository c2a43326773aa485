"""Models of many nodes that have nothing to do with each other, so that one compilation compares all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import numc

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Alone:
    """A node with its inputs: those that a run brings, and constants.

    order: names of inputs in their order, "-" for one that is left out. cast: the type that results become, for those
    that numpy or onnxruntime's Python lacks.
    """

    operator: str
    feeds: Mapping[str, Array]
    constants: Mapping[str, Array] = field(default_factory=dict)
    order: str
    domain: str = ""
    outputs: int = 1
    cast: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def label(self) -> str:
        """What tells this case from others."""
        values = {**self.feeds, **self.constants}
        sizes = {name: (np.asarray(v).dtype.name, np.shape(v)) for name, v in values.items()}
        return f"{self.operator} {dict(self.attributes)} {sizes}"


def model_of(
    cases: Mapping[int, Alone], opset: int, types: Mapping[str, tuple[int, Sequence[int]]] | None = None
) -> onnx.ModelProto:
    """Return a model of cases by number. types: of its outputs, which onnxruntime can do without."""
    nodes, inputs, tensors, outputs = [], [], [], []
    for number, case in cases.items():
        names = ["" if name == "-" else f"{name}{number}" for name in case.order.split()]
        results = [f"y{number}_{k}" for k in range(case.outputs)]
        made = [f"{name}/own" for name in results] if case.cast else results
        nodes.append(helper.make_node(case.operator, names, made, f"n{number}", domain=case.domain, **case.attributes))
        for one, name in zip(made, results, strict=True) if case.cast else ():
            nodes.append(helper.make_node("Cast", [one], [name], f"c{number}", to=case.cast))
        for name, value in case.feeds.items():
            number_of_type = helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype)
            inputs.append(helper.make_tensor_value_info(f"{name}{number}", number_of_type, np.shape(value)))
        tensors += [numpy_helper.from_array(np.asarray(v), f"{name}{number}") for name, v in case.constants.items()]
        outputs += [
            helper.make_tensor_value_info(name, *types[name]) if types else onnx.ValueInfoProto(name=name)
            for name in results
        ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11 if opset > 22 else 10)


def in_onnxruntime(case: Alone, opset: int) -> list[Array] | None:
    """Return onnxruntime's results of a node as it is written; None if it has no kernel for it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    fixed = Alone(**{**vars(case), "feeds": {}, "constants": {**case.constants, **case.feeds}})
    model = model_of({0: fixed}, opset).SerializeToString()
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return [np.asarray(value) for value in session.run(None, {})]
    except Exception as error:
        if any(
            word in str(error)
            for word in ("NOT_IMPLEMENTED", "NotImplemented", "INVALID_GRAPH", "not supported", "Type Error")
        ):
            return None
        raise


def in_numc(cases: Mapping[int, Alone], wants: Mapping[int, Sequence[Array]], opset: int) -> dict[int, list[Array]]:
    """Return numc's results of nodes, of one program, whose outputs have the types of other results."""
    types = {
        f"y{number}_{k}": (int(helper.np_dtype_to_tensor_dtype(value.dtype)), list(value.shape))
        for number, values in wants.items()
        for k, value in enumerate(values)
    }
    feeds = {f"{name}{number}": value for number, case in cases.items() for name, value in case.feeds.items()}
    found = numc.compile(model_of(cases, opset, types)).by_name(feeds)
    return {number: [found[f"y{number}_{k}"] for k in range(case.outputs)] for number, case in cases.items()}


def same_bits(one: Array, other: Array) -> bool:
    """Whether two results are equal in type, size and every bit, but those of NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    bits = f"u{one.dtype.itemsize}"
    equal = np.ascontiguousarray(one).reshape(-1).view(bits) == np.ascontiguousarray(other).reshape(-1).view(bits)
    if one.dtype.kind == "f":
        equal |= np.isnan(one.reshape(-1)) & np.isnan(other.reshape(-1))
    return bool(equal.all())
