"""Operators on elements, and normalisations."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import END, Node, RefusedError


def sign(node: Node) -> None:
    """Sign: torch-mlir gives 0 for NaN."""
    source = node.input(0)
    if node.is_float(source):
        node.op("Where", node.op("IsNaN", source), source, node.op("Sign", source), to=node.output(0))


def compared(node: Node) -> None:
    """Equal, LessOrEqual and GreaterOrEqual of what may be one tensor: torch-mlir takes its NaN for equal to itself."""
    source, other = node.input(0), node.input(1)
    if not node.is_float(source) or node.known_shape(source) != node.known_shape(other):
        return
    is_number = node.op("Not", node.op("IsNaN", source), to=node.output(0) if source == other else "")
    if source != other:
        node.op("And", node.op(node.proto.op_type, source, other), is_number, to=node.output(0))


def mod(node: Node) -> None:
    """Mod of floats with the sign of the first one, without an error: torch-mlir multiplies by a rounded quotient."""
    source, divisor = node.input(0), node.input(1)
    if not node.attribute("fmod", 0) or not node.is_float(source):
        return
    left = node.op("Mod", node.op("Abs", source), node.op("Abs", divisor))
    zero = node.like(0, source)
    is_zero = node.op("And", node.op("Equal", source, zero), node.op("Equal", left, zero))
    signed = node.op("Where", node.op("Less", source, zero), node.op("Neg", left), left)
    node.op("Where", is_zero, source, signed, to=node.output(0))


def batch_normalization(node: Node) -> None:
    """BatchNormalization of float64 and another type: computed in float64."""
    dtypes = [node.dtype(name) for name in node.proto.input]
    if len(set(dtypes)) == 1 or TensorProto.DOUBLE not in dtypes:
        return
    wide = [node.cast(name, TensorProto.DOUBLE) for name in node.proto.input]
    copy = node.copy()
    copy.input[:] = wide
    copy.output[:] = [node.fresh() if name else "" for name in node.proto.output]
    for name, to, dtype in zip(copy.output, node.proto.output, [dtypes[0], dtypes[3], dtypes[4]], strict=False):
        if to:
            node.cast(name, dtype, to=to)


def dropout(node: Node) -> None:
    """Dropout: nothing is dropped outside of training, or with the ratio 0."""
    training, ratio = node.constant_input(2, "training_mode"), node.constant_input(1, "ratio")
    if training is not None and training.any() and (ratio is None or ratio.any()):
        raise RefusedError("draws random numbers in training: export the model for inference")
    node.op("Identity", node.input(0), to=node.output(0))
    if node.output(1):
        shape = node.list_of(node.sizes(node.input(0)))
        node.op("Expand", node.constant(True, np.bool_), shape, to=node.output(1))


def instance_normalization(node: Node) -> None:
    """InstanceNormalization: torch-mlir divides by the size of another dimension where sizes are free."""
    source, scale, bias = node.proto.input
    shape = node.known_shape(source)
    if shape is None or None not in shape:
        return
    axes = node.ints(*range(2, len(shape)))
    epsilon = node.constant(node.attribute("epsilon", 1e-5), np.float32)
    wide = node.ints(-1, *[1] * (len(shape) - 2))
    difference = node.op("Sub", source, node.op("ReduceMean", source, axes))
    variance = node.op("ReduceMean", node.op("Mul", difference, difference), axes)
    normal = node.op("Div", difference, node.op("Sqrt", node.op("Add", variance, epsilon)))
    scaled = node.op("Mul", normal, node.op("Reshape", scale, wide))
    node.op("Add", scaled, node.op("Reshape", bias, wide), to=node.output(0))


def softmax(node: Node) -> None:
    """Softmax, LogSoftmax: only refuses an axis that the input does not have, on which torch-mlir does not end."""
    shape = node.known_shape(node.input(0))
    if shape is not None:
        node.axis(len(shape), -1)


def lp_normalization(node: Node) -> None:
    """LpNormalization: what has the norm 0 stays 0."""
    source = node.input(0)
    axes = node.ints(node.axis(node.rank(source), -1))
    norm = node.op("ReduceL1" if node.attribute("p", 2) == 1 else "ReduceL2", source, axes)
    zero = node.like(0, source)
    node.op("Where", node.op("Equal", norm, zero), zero, node.op("Div", source, norm), to=node.output(0))


def local_response(node: Node) -> None:
    """LRN: of an even number of channels torch-mlir takes one more before a channel, and ONNX one more behind it."""
    shape = node.known_shape(node.input(0))
    if shape is not None and None in shape:
        _local_response_of_free_sizes(node)
        return
    if node.attribute("size", 1) % 2 or shape is None:
        return

    def turned(value: str, to: str = "") -> str:
        return node.op("Slice", value, node.ints(-1), node.ints(-END), node.ints(1), node.ints(-1), to=to)

    source = turned(node.input(0))
    copy = node.copy()
    copy.input[0], copy.output[0] = source, node.fresh()
    turned(copy.output[0], to=node.output(0))


def _local_response_of_free_sizes(node: Node) -> None:
    """torch-mlir reshapes free sizes to such that it does not know."""
    source, size, op = node.input(0), node.attribute("size", 1), node.op
    rank = node.rank(source)
    pads = [(size - 1) // 2 if n == 1 else 0 for n in range(rank)], [size // 2 if n == 1 else 0 for n in range(rank)]
    squares = op("Pad", op("Mul", source, source), node.ints(*pads[0], *pads[1]))
    total = ""
    for n in range(size):
        part = node.cut(squares, 1, n, n - size + 1 or END)
        total = op("Add", total, part) if total else part
    scaled = op("Mul", op("Div", total, node.like(size, source)), node.like(node.attribute("alpha", 1e-4), source))
    power = op("Pow", op("Add", scaled, node.like(node.attribute("bias", 1.0), source)),
               node.like(node.attribute("beta", 0.75), source))  # fmt: skip
    op("Div", source, power, to=node.output(0))


def parametric_relu(node: Node) -> None:
    """PRelu: torch-mlir takes one slope, or one for each channel; here both operands stretch, as in onnxruntime."""
    source = node.input(0)
    below = node.op("Less", source, node.like(0, source))
    node.op("Where", below, node.op("Mul", source, node.input(1)), source, to=node.output(0))
