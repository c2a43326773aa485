"""The parts of a node by ONNX's schemas: its inputs, its outputs, and its attributes. Runs in the worker."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from numc.frontends.onnx.reading.tensors import NAMES, NUMBERS
from numc.support.errors import did_you_mean

_OPTION = onnx.defs.OpSchema.FormalParameterOption
_FLAGS = (
    *("align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad"),
    *("detect_negative", "detect_positive", "exclude_outside", "exclusive", "fmod", "interleaved", "inverse"),
    *("is_causal", "keepdims", "largest", "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided"),
    *("periodic", "reverse", "saturate", "select_last_index", "sorted", "storage_order", "training_mode"),
    *("layout", "transA", "transB", "upper"),
)
"""Attributes that are 0 or 1. Of other numbers, implementations make one or the other."""

_CHOICES = {
    "BitShift.direction": ("LEFT", "RIGHT"),
    "DepthToSpace.mode": ("CRD", "DCR"),
    "Gelu.approximate": ("none", "tanh"),
    "Pad.mode": ("constant", "edge", "reflect", "wrap"),
    "RoiAlign.mode": ("avg", "max"),
    "TensorScatter.mode": ("circular", "linear"),
    **dict.fromkeys(("GRU.direction", "LSTM.direction", "RNN.direction"), ("bidirectional", "forward", "reverse")),
    **dict.fromkeys(("ScatterElements.reduction", "ScatterND.reduction"), ("add", "max", "min", "mul", "none")),
    **dict.fromkeys(
        ("NegativeLogLikelihoodLoss.reduction", "SoftmaxCrossEntropyLoss.reduction"), ("mean", "none", "sum")
    ),
}
_TYPES = ("dtype", "output_datatype", "to")
_PRECISIONS = ("softmax_precision", "stash_type")
_FLOATS = ("bfloat16", "double", "float", "float16")


def fault(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> str:
    """Return what of a node is not as its schema has it, "" if all is."""
    return _of_values(node, schema) or _of_attributes(node, schema)


def mistyped(node: onnx.NodeProto, schema: onnx.defs.OpSchema, types: Mapping[str, int]) -> str:
    """Return which input of a node is of another kind than its schema has it, "" if none is.

    types: of values, as numbers of onnx.TensorProto. Of floats, or integers, more types are available than ONNX allows.
    """
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    for n, name in enumerate(node.input):
        formal = schema.inputs[min(n, len(schema.inputs) - 1)]
        kinds = {_kind(text) for text in allowed.get(formal.type_str, [formal.type_str])}
        if name in types and (actual := _kind(f"tensor({NAMES.get(types[name], '')})")) and actual not in kinds:
            wanted = " or ".join(sorted(kind for kind in kinds if kind))
            return f"its input {n} ({formal.name}), '{name}', is {actual}: it has to be {wanted or 'something else'}"
    return ""


def _kind(text: str) -> str:
    """The kind of a type such as ``tensor(int64)``, "" if it is none of a tensor of numbers."""
    name = text.removeprefix("optional(").removeprefix("tensor(").rstrip(")")
    for kind, starts in (("bool", ("bool",)), ("integers", ("int", "uint")), ("floats", ("float", "double", "bfloat"))):
        if name.startswith(starts):
            return kind
    return ""


def _of_values(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> str:
    count = len(node.input)
    least, most = schema.min_input, schema.max_input
    if not least <= count <= most:
        allowed = f"{least}" if least == most else f"{least} to {most}" if most < 2**31 - 1 else f"{least} or more"
        return f"it has {count} inputs, want {allowed}"
    for n, (name, formal) in enumerate(zip(node.input, schema.inputs, strict=False)):
        if not name and formal.option == _OPTION.Single:
            return f"its input {n} ({formal.name}) is missing"
    if len(node.output) > schema.max_output:
        return f"it has {len(node.output)} outputs, want at most {schema.max_output}"
    parts = next((a.i for a in node.attribute if a.name == "num_outputs"), len(node.output))
    if node.op_type == "Split" and parts != len(node.output):  # the shape inference of onnx does not survive it
        return f"its num_outputs is {parts}, and it has {len(node.output)} outputs"
    return ""


def _of_attributes(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> str:
    known = schema.attributes
    attributes = {attribute.name: attribute for attribute in node.attribute}
    for name, attribute in attributes.items():
        if name.startswith("__"):  # internal ones of tools, which checkers of ONNX leave alone
            continue
        if name not in known:
            return f"it has no attribute '{name}'{did_you_mean(name, known)}"
        type_name, wanted = onnx.AttributeProto.AttributeType.Name(attribute.type), known[name].type.name
        if type_name != wanted:
            return f"its attribute {name} is of type {type_name}, want {wanted}"
        if name in _FLAGS and type_name == "INT" and attribute.i not in (0, 1):
            return f"its attribute {name} is {attribute.i}: want 0 or 1"
        if wrong := _of_value(f"{node.op_type}.{name}", attribute):
            return f"its attribute {name} is {wrong}"
    missing = [name for name, attribute in known.items() if attribute.required and name not in attributes]
    return f"its attribute {missing[0]} is missing" if missing else ""


def _of_value(what: str, attribute: onnx.AttributeProto) -> str:
    name, type_name = what.partition(".")[2], NAMES.get(attribute.i, str(attribute.i))
    if name in _TYPES and attribute.i not in NUMBERS:
        return f"type {type_name}: want a type of numbers or bool"
    if name in _PRECISIONS and type_name not in _FLOATS:
        return f"type {type_name}: want {', '.join(_FLOATS)}"
    value = attribute.s.decode(errors="replace")
    if what in _CHOICES and value not in _CHOICES[what]:
        return f"'{value}': want {', '.join(_CHOICES[what])}"
    return ""
