"""Models of older opsets in the operators of OPSET, with what the converter of onnx forgets."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
from onnx import numpy_helper, version_converter

from numc.frontends.onnx.conditions.moves import STRICT
from numc.frontends.onnx.reading.read import origin
from numc.frontends.onnx.rewrites.images.resize_free import BY_SCALE
from numc.frontends.onnx.rewrites.indexing import FLAT
from numc.support.errors import NumcError, shortened

OPSET = 18
"""Older models are converted to this opset, for which torch-mlir's lowerings are written."""


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operators."""
    return next(int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx"))


def convert_version(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in the operators of opset OPSET.

    Raises NumcError for a node that the converter refuses, and that means something else there.
    """
    # IR version 3 requires initialisers among the inputs; version 8 is the oldest one with opset 18.
    model.ir_version = max(model.ir_version, 8)
    version = opset_of(model)
    if version < 13:
        _say_flatness(model.graph)
    if version >= OPSET:
        return model
    try:
        converted = version_converter.convert_version(model, OPSET)
    except Exception:
        # What else cannot be converted is imported as it is, because many operators have not changed.
        _refuse_changed(model, version)
        return model
    if len(converted.graph.input) != len(model.graph.input):
        return model
    if version < 11:
        _say_coordinates(converted.graph)
        _match_bounds(converted.graph)
    _say_strictness(model.graph, converted.graph)
    return converted


def _refuse_changed(model: onnx.ModelProto, version: int) -> None:
    """Raise NumcError for a node that cannot be converted alone, if later opsets define its operator otherwise.

    Read as it is, every other node of the model would get the meaning of later opsets, too.
    """
    with contextlib.suppress(Exception):
        model = onnx.shape_inference.infer_shapes(model)
    graph = model.graph
    kinds = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.domain or not all(name in kinds or name in constants for name in node.input if name):
            continue
        alone = onnx.helper.make_graph(
            [node],
            "one",
            [kinds[name] for name in dict.fromkeys(node.input) if name in kinds],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
            [constants[name] for name in dict.fromkeys(node.input) if name in constants],
        )
        opset = onnx.helper.make_opsetid("", version)
        try:
            version_converter.convert_version(onnx.helper.make_model(alone, opset_imports=[opset]), OPSET)
        except Exception as error:
            if onnx.defs.has(node.op_type) and _has_changed(node.op_type, version):
                why = shortened(str(error).rpartition("failed: ")[2].strip())
                where = f"node '{origin(node)}' ({node.op_type}, opset {version})"
                raise NumcError(
                    f"{where}: onnx cannot convert it: {why}: want it as opset {OPSET} defines it"
                ) from None


def _has_changed(operator: str, version: int) -> bool:
    try:
        before = onnx.defs.get_schema(operator, version).since_version
    except onnx.defs.SchemaError:
        return True
    return bool(before != onnx.defs.get_schema(operator, OPSET).since_version)


def _say_coordinates(graph: onnx.GraphProto) -> None:
    """Write down which coordinates a Resize has that is older than the attributes for them; the converter forgets."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Resize":
            known = {attribute.name for attribute in node.attribute}
            scales = values.get(node.input[2])
            grows = scales is not None and bool(np.all(scales >= 1))
            rounding = "floor" if grows else BY_SCALE
            for name, value in (("coordinate_transformation_mode", "asymmetric"), ("nearest_mode", rounding)):
                if name not in known:
                    node.attribute.append(onnx.helper.make_attribute(name, value))


def _match_bounds(graph: onnx.GraphProto) -> None:
    """Give the bounds of a Clip, which were attributes, the dtype of its elements; the converter makes them float."""
    nodes = list(graph.node)
    graph.ClearField("node")
    for number, node in enumerate(nodes):
        for position in range(1, len(node.input) if node.op_type == "Clip" and node.domain == "" else 0):
            if node.input[position]:
                bound = f"{node.input[position]}/of {number}.{position}"
                graph.node.append(
                    onnx.helper.make_node("CastLike", [node.input[position], node.input[0]], [bound], node.name)
                )
                node.input[position] = bound
        graph.node.append(node)


def _say_flatness(graph: onnx.GraphProto) -> None:
    """Note that a Hardmax is of all that its axis and those behind it hold, which the converter forgets."""
    for node in graph.node:
        if node.op_type == "Hardmax":
            node.attribute.append(onnx.helper.make_attribute(FLAT, 1))


def _say_strictness(before: onnx.GraphProto, after: onnx.GraphProto) -> None:
    """Note that a Split of an old model is into equal parts, and that a Resize was an Upsample, which only enlarges."""
    enlarged = {node.output[0] for node in before.node if node.op_type == "Upsample"}
    for node in after.node:
        if node.op_type == "Split" or (node.op_type == "Resize" and node.output[0] in enlarged):
            node.attribute.append(onnx.helper.make_attribute(STRICT, 1))
