"""Nodes that ONNX defines as functions of other nodes, written as these."""

from __future__ import annotations

from collections import Counter

import onnx
from onnx import defs

from numc.frontends.onnx.rewrites.node import Node
from numc.frontends.onnx.rewrites.structure.control import rename


def expand(node: Node) -> None:
    """Emit the nodes of ONNX's own definition; the node stays if it does not follow it.

    The nodes of a node `x` are called ``x/OPERATOR``.
    """
    body = _body(node)
    if body is not None:
        _inline(node, body)


def _body(node: Node) -> onnx.FunctionProto | None:
    """Return the function that defines a node, in the newest opset that is not newer than the model's."""
    try:
        schema = _schema(node)
        fixed = [v for v in schema.function_opset_versions if v <= node.opset]
        if fixed:
            return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(fixed)))
        typed = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
        input_types = [node.type_of(name).SerializeToString() if name else b"" for name in node.proto.input]
        data = node.proto.SerializeToString()
        text = schema.get_context_dependent_function_with_opset_version(max(typed), data, input_types)
        return onnx.FunctionProto.FromString(text) if text else None
    except (defs.SchemaError, LookupError, ValueError, RuntimeError):
        return None


def _schema(node: Node) -> defs.OpSchema:
    domain = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    return defs.get_schema(node.proto.op_type, defs.onnx_opset_version() if domain else node.opset, domain)


def _inline(node: Node, body: onnx.FunctionProto) -> None:
    """Emit the nodes of a function, with the names of the values of a node that calls it."""
    names = {"": ""}
    for formal, actual in ((body.input, node.proto.input), (body.output, node.proto.output)):
        names |= {name: (actual[n] if n < len(actual) else "") for n, name in enumerate(formal)}
    defaults = _schema(node).attributes
    attributes = {name: attribute.default_value for name, attribute in defaults.items() if attribute.default_value.name}
    attributes |= {attribute.name: attribute for attribute in node.proto.attribute}
    numbers: Counter[str] = Counter()
    for body_node in body.node:
        inner = onnx.NodeProto.FromString(body_node.SerializeToString())
        inner.doc_string = ""
        numbers[inner.op_type] += 1
        number = numbers[inner.op_type]
        inner.name = f"{node.proto.name}/{inner.op_type}" + (f"#{number}" if number > 1 else "")
        for name in filter(None, inner.output):
            if not names.get(name):
                names[name] = node.fresh()
        del inner.attribute[:]
        for attribute in body_node.attribute:
            if not attribute.ref_attr_name:
                inner.attribute.append(attribute)
            elif attribute.ref_attr_name in attributes:  # otherwise the operator's own default holds
                copy = onnx.AttributeProto.FromString(attributes[attribute.ref_attr_name].SerializeToString())
                copy.name = attribute.name
                inner.attribute.append(copy)
        rename(inner, names)
        node.made.append(inner)
