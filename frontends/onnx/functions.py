"""Nodes that torch-mlir has no lowering for, or a wrong one, replaced by the nodes of ONNX's own definition.

ONNX defines many operators as functions of others. Runs in the worker.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import defs

EXPANDED = (
    "Attention",
    "GroupNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
)
"""Operators that are always replaced; all others are left to torch-mlir. Their definitions have no subgraphs."""


def expand(graph: onnx.GraphProto, types: Mapping[str, onnx.TypeProto], opset: int) -> dict[str, str]:
    """Replace the nodes of EXPANDED in place; return the operators by name of the nodes that replace them.

    types: of the values, as far as they are known. opset: of the model. A node that does not follow its definition is
    left as it is. The nodes of a node `x` are called ``x/OPERATOR``.
    """
    found: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        body = _body(node, types, opset) if node.domain in ("", "ai.onnx") and node.op_type in EXPANDED else None
        made = [node] if body is None else _inlined(node, body, opset)
        if body is not None:
            found |= {inner.name: node.op_type for inner in made}
        nodes += [onnx.NodeProto.FromString(one.SerializeToString()) for one in made]
    if found:
        del graph.node[:]
        graph.node.extend(nodes)
    return found


def _body(node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], opset: int) -> onnx.FunctionProto | None:
    """Return the function that defines a node, in the newest opset that is not newer than the model's."""
    try:
        schema = defs.get_schema(node.op_type, opset, "")
        fixed = [v for v in schema.function_opset_versions if v <= opset]
        if fixed:
            return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(fixed)))
        typed = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        given = [types[name].SerializeToString() if name else b"" for name in node.input]
        text = schema.get_context_dependent_function_with_opset_version(max(typed), node.SerializeToString(), given)
        return onnx.FunctionProto.FromString(text) if text else None
    except (defs.SchemaError, LookupError, ValueError, RuntimeError):
        return None


def _inlined(node: onnx.NodeProto, body: onnx.FunctionProto, opset: int) -> list[onnx.NodeProto]:
    """Return the nodes of a function, with the names of the values of a node that calls it."""
    names = {"": ""}
    for formal, actual in ((body.input, node.input), (body.output, node.output)):
        names |= {name: (actual[n] if n < len(actual) else "") for n, name in enumerate(formal)}
    defaults = defs.get_schema(node.op_type, opset, "").attributes
    given = {name: attribute.default_value for name, attribute in defaults.items() if attribute.default_value.name}
    given |= {attribute.name: attribute for attribute in node.attribute}
    made = []
    for number, one in enumerate(body.node):
        inner = onnx.NodeProto.FromString(one.SerializeToString())
        inner.name = f"{node.name}/{inner.op_type}"
        for values, fresh in ((inner.input, False), (inner.output, True)):
            for n, name in enumerate(values):
                if names.get(name, "") == "" and name and (fresh or name not in names):
                    names[name] = f"{node.output[0] or node.name}/{number}/{name}"
                values[n] = names[name]
        del inner.attribute[:]
        for attribute in one.attribute:
            if not attribute.ref_attr_name:
                inner.attribute.append(attribute)
            elif attribute.ref_attr_name in given:  # otherwise the operator's own default holds
                copy = onnx.AttributeProto.FromString(given[attribute.ref_attr_name].SerializeToString())
                copy.name = attribute.name
                inner.attribute.append(copy)
        made.append(inner)
    return made
