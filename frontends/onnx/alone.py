"""One node of a model alone: a model of its own, and whether what it reads fits together. Runs in the worker."""

from __future__ import annotations

from typing import TypeVar

import onnx

from numc.frontends.onnx.reading.tensors import NAMES
from numc.frontends.words import CONTRADICTION, FIX_CONDITION

Proto = TypeVar("Proto", onnx.ValueInfoProto, onnx.TensorProto)


def contradicts(alone: onnx.ModelProto) -> bool:
    """Whether the shapes of the inputs of one node do not fit together."""
    del alone.graph.output[:]  # what is declared may be wrong, too
    try:
        onnx.shape_inference.infer_shapes(alone, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        return "ShapeInferenceError" in str(error)
    return False


def contradiction(
    node: onnx.NodeProto, types: dict[str, onnx.ValueInfoProto], constants: dict[str, onnx.TensorProto]
) -> str:
    """Say what does not fit together in a node whose results have no shape although its inputs have."""
    if node.op_type == "If":
        return f"its condition is computed, and its branches give results of different ranks: {FIX_CONDITION}"
    return f"{CONTRADICTION}: {inputs_of(node, types, constants)}"


def inputs_of(
    node: onnx.NodeProto, types: dict[str, onnx.ValueInfoProto], constants: dict[str, onnx.TensorProto]
) -> str:
    """The names of the inputs of a node with their sizes, or the values of one that is a list of numbers."""
    descriptions = []
    for name in filter(None, dict.fromkeys(node.input)):
        if name in constants and constants[name].data_type == onnx.TensorProto.INT64 and len(constants[name].dims) == 1:
            descriptions.append(f"'{name}' is {onnx.numpy_helper.to_array(constants[name])[:8].tolist()}")
        elif name in constants:
            descriptions.append(f"'{name}' has sizes {list(constants[name].dims)}")
        elif name in types:
            dims = types[name].type.tensor_type.shape.dim
            sizes = ", ".join(str(dim.dim_value) if dim.HasField("dim_value") else "?" for dim in dims)
            descriptions.append(f"'{name}' has sizes [{sizes}]")
    return ", ".join(descriptions)


def kinds_of(
    node: onnx.NodeProto, types: dict[str, onnx.ValueInfoProto], constants: dict[str, onnx.TensorProto]
) -> list[str]:
    """The types of the inputs of a node, without repetition."""
    numbers = {name: value.type.tensor_type.elem_type for name, value in types.items()}
    numbers |= {name: tensor.data_type for name, tensor in constants.items()}
    return list(dict.fromkeys(NAMES.get(numbers[name], "") for name in node.input if name in numbers))


def attributes_of(node: onnx.NodeProto) -> dict[str, object]:
    """The attributes of a node that are numbers, lists of them and words."""
    attributes: dict[str, object] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, (int, float, bytes, list)) and not attribute.graphs:
            attributes[attribute.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return attributes


def model_of(
    node: onnx.NodeProto,
    types: dict[str, onnx.ValueInfoProto],
    constants: dict[str, onnx.TensorProto],
    model: onnx.ModelProto,
) -> onnx.ModelProto:
    """Return a model of one node, with the same names for equal nodes, so that equal nodes are tried once."""
    node = onnx.NodeProto.FromString(node.SerializeToString())
    node.name, node.doc_string, inputs, outputs, initializers = "node", "", [], [], []
    renamed: dict[str, str] = {}
    for position, name in enumerate(node.input):
        if name and name not in renamed:
            renamed[name] = f"i{position}"
            if name in constants:
                initializers.append(_renamed(constants[name], renamed[name]))
            elif name in types:
                inputs.append(_renamed(types[name], renamed[name]))
    for position, name in enumerate(node.output):
        if name:
            renamed[name] = f"o{position}"
            if name in types:
                outputs.append(_renamed(types[name], renamed[name]))
    node.input[:] = [renamed.get(name, "") for name in node.input]
    node.output[:] = [renamed.get(name, "") for name in node.output]
    graph = onnx.helper.make_graph([node], "main", inputs, outputs, initializers)
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _renamed(proto: Proto, name: str) -> Proto:
    copy = type(proto)()
    copy.CopyFrom(proto)
    copy.name = name
    return copy
