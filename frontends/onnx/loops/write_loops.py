"""Loops that were kept (keep.py), written as those of ONNX. Runs in the worker."""

from __future__ import annotations

import onnx
from onnx import helper

from numc.frontends.onnx.loops.emit import BODY, DOMAIN, READS
from numc.frontends.onnx.rewrites.structure.control import rename


def write_loops(model: onnx.ModelProto) -> None:
    """Make each loop that is kept a Loop, whose body reads values of the graph by their names, in place."""
    versions = [each for each in model.opset_import if each.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(versions)
    graph = model.graph
    types = {value.name: value.type for value in [*graph.input, *graph.output, *graph.value_info]}
    types |= {each.name: helper.make_tensor_type_proto(each.data_type, each.dims) for each in graph.initializer}
    for node in graph.node:
        if node.domain == DOMAIN:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            body = onnx.GraphProto.FromString(attributes[BODY])
            reads = [name.decode() for name in attributes[READS]]
            count = len(node.input) - len(reads)
            around = list(node.input[count:])
            _place(body, node.name, dict(zip(reads, around, strict=True)))
            # torch-mlir looks for types in the body alone, where it expands operators that ONNX defines by functions.
            body.value_info.extend(onnx.ValueInfoProto(name=name, type=types[name]) for name in dict.fromkeys(around))
            del node.attribute[:], node.input[count:]
            node.attribute.append(helper.make_attribute("body", body))
            node.domain = ""


def _place(body: onnx.GraphProto, loop: str, reads: dict[str, str]) -> None:
    """Give values of the body names of their own, and those that it reads the names that they have around it."""
    own = [value.name for value in body.input] + [name for node in body.node for name in node.output if name]
    names = {name: f"{loop}/{name}" for name in own} | reads
    for node in body.node:
        rename(node, names)
    for value in (*body.input, *body.output, *body.value_info):
        value.name = names.get(value.name, value.name)
