"""The axes that nodes name have to be those of their inputs: torch-mlir crashes on others, or does not end."""

from __future__ import annotations

from numc.frontends.onnx.rewrites.node import Node, RefusedError

_BY_ATTRIBUTE = frozenset(
    [
        *("ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Gather", "GatherElements", "Hardmax"),
        *("LayerNormalization", "LogSoftmax", "LpNormalization", "RMSNormalization", "Scatter", "ScatterElements"),
        *("Softmax", "Split", "TensorScatter", "TopK", "Unique"),
    ]
)
_BY_INPUT = {"CumProd": 1, "CumSum": 1, "Slice": 3, "Squeeze": 1, "Unsqueeze": 1}


def check_axes(node: Node) -> None:
    """Raise RefusedError if an axis of a node is none of its first input."""
    op_type, shape = node.proto.op_type, node.known_shape(node.input(0))
    if node.proto.domain not in ("", "ai.onnx") or shape is None:
        return
    rank = len(shape)
    if op_type in _BY_ATTRIBUTE and any(attribute.name == "axis" for attribute in node.proto.attribute):
        if not (op_type == "Flatten" and node.attribute("axis", 1) == rank):
            node.axis(rank, 0)
        return
    number = 1 if op_type.startswith("Reduce") else _BY_INPUT.get(op_type)
    axis_values = None if number is None else node.constants.get(node.input(number))
    if axis_values is None or axis_values.dtype.kind != "i":
        return
    axes = [int(axis) for axis in axis_values.reshape(-1)]
    if op_type == "Unsqueeze":
        rank += len(axes)
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) < len(axes):
        raise RefusedError(f"its axes {axes} are not different ones of {rank}")
