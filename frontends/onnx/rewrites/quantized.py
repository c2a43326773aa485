"""Quantised numbers: integers with scales and zero points, written as arithmetic on floats and integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from numc.frontends.onnx.reading.tensors import NAMES
from numc.frontends.onnx.rewrites.images.convolutions import convolved
from numc.frontends.onnx.rewrites.images.windows import fixed_image
from numc.frontends.onnx.rewrites.node import Array, Node, RefusedError

_TYPES = dict(TensorProto.DataType.items())
_RANGES = {
    _TYPES[f"{sign}INT{bits}"]: (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for bits in (2, 4, 8, 16)
    for sign in ("", "U")
    if f"{sign}INT{bits}" in _TYPES
}
_PRECISIONS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_AVAILABLE = "float, float16 or bfloat16"
_SMALL_FLOATS = {number for name, number in _TYPES.items() if name.startswith(("FLOAT4", "FLOAT8E4", "FLOAT8E5"))}


def dequantize(node: Node) -> None:
    """DequantizeLinear: torch-mlir does not do blocks, and mixes up axes."""
    source, scale, zero = node.input(0), node.input(1), node.input(2)
    if node.dtype(source) not in (*_RANGES, *_SMALL_FLOATS, TensorProto.INT32):
        raise RefusedError(f"its input '{source}' is of a type that ONNX does not quantise to")
    result = node.attribute("output_dtype", 0) or node.dtype(scale) or TensorProto.FLOAT
    if result == TensorProto.FLOAT8E8M0:
        return  # it is refused by its types (supported.py)
    if _expand_weight(node, result):
        return
    if TensorProto.DOUBLE in (result, node.dtype(scale)):
        raise RefusedError(f"its scale '{scale}' or its result is float64: float32, float16 and bfloat16 are available")
    scale, zero = _spread(node, source, scale), _spread(node, source, zero) if zero else ""
    value = node.cast(source, TensorProto.FLOAT)
    if zero:
        value = node.op("Sub", value, node.cast(zero, TensorProto.FLOAT))
    if result == TensorProto.FLOAT:
        node.op("Mul", value, scale, to=node.output(0))
    else:
        node.cast(node.op("Mul", value, scale), result, node.output(0))


def _expand_weight(node: Node, result: int) -> bool:
    """Let the result be a constant, if it is float32 and the integers, of 4 or 2 bits, are: they are weights then."""
    source, scale, zero = (node.constants.get(node.input(n)) for n in range(3))
    if source is None or scale is None or (node.input(2) and zero is None) or result != TensorProto.FLOAT:
        return False
    if source.dtype.name not in ("int4", "uint4", "int2", "uint2") or scale.dtype != np.float32:
        return False

    def spread(given: Array) -> npt.NDArray[np.float32]:
        factor, block = given.astype(np.float32), node.attribute("block_size", 0)
        if factor.size == 1 and not block:
            return factor.reshape(())
        axis = node.axis(source.ndim, 1)
        if not block:
            return factor.reshape([-1 if d == axis else 1 for d in range(source.ndim)])
        repeated: npt.NDArray[np.float32] = np.take(factor, np.arange(source.shape[axis]) // block, axis=axis)
        return repeated

    value = source.astype(np.float32)
    if zero is not None:
        value = value - spread(zero)
    node.op("Identity", node.constant(value * spread(scale), np.float32), to=node.output(0))
    return True


def quantize(node: Node) -> None:
    """QuantizeLinear: the result is rounded to nearest, ties to even, and saturates."""
    source, scale, zero = node.input(0), node.input(1), node.input(2)
    result = node.attribute("output_dtype", 0) or (node.dtype(zero) if zero else TensorProto.UINT8)
    if result not in (*_RANGES, *_SMALL_FLOATS):
        raise RefusedError("its result is of a type that ONNX does not quantise to")
    if TensorProto.DOUBLE in (node.dtype(source), node.dtype(scale)):
        raise RefusedError(f"'{source}' or its scale is float64: float32, float16 and bfloat16 are available")
    precision = _precision(node, scale)
    zero = _spread(node, source, zero) if zero and _moves(node, zero, result) else ""
    divided = _divided(node, source, _spread(node, source, scale), precision)
    if result in _RANGES:
        saturated(node, node.op("Round", divided), zero, result, node.output(0))
        return
    if zero:
        divided = node.op("Add", divided, node.cast(zero, TensorProto.FLOAT))
    node.cast(divided, result, node.output(0))
    if not node.attribute("saturate", 1):
        node.made[-1].attribute.append(helper.make_attribute("saturate", 0))


def quantize_dynamically(node: Node) -> None:
    """DynamicQuantizeLinear: ONNX's definition, with scale 1 if all is 0, as in onnxruntime, not 0."""
    source, zero = node.input(0), node.constant(0, np.float32)
    least = node.op("Min", node.op("ReduceMin", source, keepdims=0), zero)
    most = node.op("Max", node.op("ReduceMax", source, keepdims=0), zero)
    whole = node.op("Sub", most, least)
    divided = node.op("Div", whole, node.constant(255, np.float32))
    nothing = node.op("Equal", whole, zero)
    scale = node.op("Where", nothing, node.constant(1, np.float32), divided, to=node.output(1))
    point = node.op("Round", node.op("Sub", zero, node.op("Div", least, scale)))
    saturated(node, point, "", TensorProto.UINT8, node.output(2))
    node.op("QuantizeLinear", source, scale, node.output(2), to=node.output(0))


def _moves(node: Node, zero: str, result: int) -> bool:
    """Return whether a zero point is added: that of float8 is not if it is 0, so that -0 stays -0."""
    known = node.constants.get(zero)
    return (
        result in _RANGES or result == TensorProto.FLOAT4E2M1 or known is None or bool(known.astype(np.float32).any())
    )


def _precision(node: Node, scale: str) -> int:
    """Return the type in which a value is divided by its scale.

    Before opset 23 ONNX does not say: it is float32, as in onnxruntime. Powers of two divide in float32, too.
    """
    if precision := node.attribute("precision", 0):
        if precision not in _PRECISIONS:
            raise RefusedError(f"its precision is {NAMES.get(precision, precision)}: want {_AVAILABLE}")
        return int(precision)
    if node.opset < 23 or node.dtype(scale) in (0, TensorProto.FLOAT8E8M0):
        return int(TensorProto.FLOAT)
    if node.dtype(scale) not in _PRECISIONS:
        dtype = NAMES.get(node.dtype(scale), "of another type")
        raise RefusedError(f"its scale '{scale}' is {dtype}, and it has no precision: want precision {_AVAILABLE}")
    return node.dtype(scale)


def _divided(node: Node, source: str, scale: str, precision: int) -> str:
    """Emit float32 quotients of a value and its scales, which are divided in float32, float16 or bfloat16."""
    if precision not in (TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return node.op("Div", _in_float32(node, source), scale)
    short = source if node.dtype(source) == precision else node.cast(source, precision)
    return node.cast(node.op("Div", short, node.cast(scale, precision)), TensorProto.FLOAT)


def _in_float32(node: Node, name: str) -> str:
    return name if node.dtype(name) == TensorProto.FLOAT else node.cast(name, TensorProto.FLOAT)


def saturated(node: Node, rounded: str, zero: str, result: int, to: str) -> None:
    """Emit the integers of a type that are nearest to whole floats, to which a zero point is added."""
    low, high = _RANGES[result]
    if zero:
        rounded = node.op("Add", rounded, node.cast(zero, TensorProto.FLOAT))
    clipped = node.op("Clip", rounded, node.constant(low, np.float32), node.constant(high, np.float32))
    # Through int32, which every value fits: a float has no defined conversion to a narrow integer.
    node.cast(node.cast(clipped, TensorProto.INT32), result, to)


def _spread(node: Node, source: str, factor: str) -> str:
    """Emit scales in float32, or zero points, in a shape that goes with the elements they are for."""
    shape = node.shape(factor)
    block = node.attribute("block_size", 0)
    rank = node.rank(source)
    value = _in_float32(node, factor) if factor == node.input(1) else factor
    if not shape or (shape == [1] and not block):
        return node.op("Reshape", value, node.ints()) if shape else value
    axis = node.axis(rank, 1)
    if not block:
        return node.op("Reshape", value, node.ints(*(-1 if d == axis else 1 for d in range(rank))))
    length = node.size(source, axis)
    if isinstance(length, int):
        indices = node.constant(np.arange(length) // block, np.int64)
    else:
        indices = node.op("Div", node.steps(length), node.ints(block))
    return node.op("Gather", value, indices, axis=axis)


def linear_mat_mul(node: Node) -> None:
    """QLinearMatMul: torch-mlir does matrices only, not stacks of them, and one scale for a whole operand."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (node.input(n) for n in range(8))
    result = node.dtype(y_zero)
    if result not in _RANGES:
        raise RefusedError("its result is of a type other than integers of 8 and 16 bits")
    right = _less(node, b, _zero_point(node, b_zero))
    if any(node.shape(name) not in ([], [1]) for name in (a_scale, a_zero, y_scale, y_zero)):  # some for each row
        left = _less(node, a, _of_rows(node, a_zero))
        product = node.op("MatMul", left, right)
    else:
        left = centred(node, rows_of(node, a, b), a_zero)
        product = stacked(node, node.op("MatMul", left, right), a, b)
    factor = node.op("Mul", _of_rows(node, a_scale), _of_columns(node, b_scale))
    factor = node.op("Div", factor, _of_rows(node, y_scale))
    rounded = node.op("Round", node.op("Mul", node.cast(product, TensorProto.FLOAT), factor))
    saturated(node, rounded, _of_rows(node, y_zero), result, node.output(0))


def _of_rows(node: Node, name: str) -> str:
    """Emit a number for a matrix, or one for each of its rows, so that it goes with the matrix."""
    if node.shape(name) in ([], [1]):
        return scalar(node, name)
    return node.reshape(name, [-1, 1]) if node.rank(name) == 1 else name


def _of_columns(node: Node, name: str) -> str:
    """Emit a number for a matrix, or one for each of its columns, so that it goes with the matrix."""
    return scalar(node, name) if node.shape(name) == [1] else name


def mat_mul_integer(node: Node) -> None:
    """MatMulInteger: torch-mlir takes stacks of matrices of unsigned integers without zero points for signed ones."""
    a, b, a_zero, b_zero = (node.input(n) for n in range(4))
    a_zero, right = _zero_point(node, a_zero), _less(node, b, _zero_point(node, b_zero))
    if a_zero and node.shape(a_zero) not in ([], [1]):  # one for each row
        left = _less(node, a, _of_rows(node, a_zero))
        node.op("MatMul", left, right, to=node.output(0))
        return
    left = _less(node, rows_of(node, a, b), a_zero)
    stacked(node, node.op("MatMul", left, right), a, b, to=node.output(0))


def rows_of(node: Node, a: str, b: str) -> str:
    """Emit a stack of matrices as one matrix, if one matrix `b` is the other factor of all."""
    return node.reshape(a, [-1, node.size(a, -1)]) if _share(node, a, b) else a


def stacked(node: Node, product: str, a: str, b: str, to: str = "") -> str:
    """Emit the product of `rows_of` as that of `a` and `b`."""
    if _share(node, a, b):
        sizes = [*(node.size(a, d) for d in range(node.rank(a) - 1)), node.size(b, 1)]
        return node.reshape(product, sizes, to=to)
    return node.op("Identity", product, to=to) if to else product


def _share(node: Node, a: str, b: str) -> bool:
    return len(node.known_shape(a) or ()) > 2 and len(node.known_shape(b) or ()) == 2


def linear_conv(node: Node) -> None:
    """QLinearConv: torch-mlir scales the bias wrongly where weights have a scale for each channel."""
    source, scale, zero, weight, weight_scale, weight_zero, y_scale, y_zero, bias = (node.input(n) for n in range(9))
    result = node.dtype(y_zero)
    if result not in _RANGES:
        raise RefusedError("its result is of a type other than integers of 8 and 16 bits")
    rank = node.rank(source)
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.proto.attribute}
    total = node.op("ConvInteger", source, weight, zero, weight_zero, **attributes)
    if bias:
        total = node.op("Add", total, _of_channels(node, bias, rank))
    factor = node.op("Mul", scalar(node, scale), _of_channels(node, weight_scale, rank))
    factor = node.op("Div", factor, scalar(node, y_scale))
    rounded = node.op("Round", node.op("Mul", node.cast(total, TensorProto.FLOAT), factor))
    saturated(node, rounded, scalar(node, y_zero), result, node.output(0))


def _of_channels(node: Node, value: str, rank: int) -> str:
    """Emit a number, or one for each channel, so that it goes with images of `rank` dimensions."""
    return node.reshape(value, [1, -1, *[1] * (rank - 2)]) if node.rank(value) else value


def scalar(node: Node, name: str) -> str:
    """Emit a list of one number as the number."""
    return node.op("Reshape", name, node.ints()) if node.rank(name) else name


def _zero_point(node: Node, name: str) -> str:
    """Emit zero points as one number if they are all the same, and as none if that is zero."""
    known = node.constants.get(name)
    if known is None or not known.size or (known != known.reshape(-1)[0]).any():
        return name
    return node.constant(known.reshape(-1)[0], known.dtype) if known.any() else ""


def centred(node: Node, value: str, zero: str) -> str:
    """Emit integers as int32, less their zero point."""
    zero = _zero_point(node, zero)
    return _less(node, value, scalar(node, zero) if zero else "")


def _less(node: Node, value: str, zero: str) -> str:
    """Emit integers as int32, less zero points that go with them."""
    wide = node.cast(value, TensorProto.INT32)
    return node.op("Sub", wide, node.cast(zero, TensorProto.INT32)) if zero else wide


def conv_integer(node: Node) -> None:
    """ConvInteger: of int32, a Conv then (convert.py), without padding, which torch-mlir ignores, and zero points."""
    source, weight, zero = (node.input(n) for n in range(3))
    weight_zero = _zero_point(node, node.input(3))
    rank, windows = node.rank(weight), convolved(node)
    if windows is None:
        raise RefusedError("it is available for weights of fixed sizes only: give shapes={...} or --shape")
    if windows.auto:
        windows = windows.on(fixed_image(node))
    pads = windows.before + windows.after
    if node.shape(source)[1] is None:  # a condition of the node checks that the weight is for as many channels
        channels = (node.shape(weight)[1] or 0) * node.attribute("group", 1)
        source = node.op("Reshape", source, node.ints(0, channels, *[0] * (rank - 2)))  # 0 keeps a size
    image, kernel = centred(node, source, zero), node.cast(weight, TensorProto.INT32)
    if any(pads):
        image = node.op("Pad", image, node.ints(0, 0, *windows.before, 0, 0, *windows.after))
    if weight_zero:
        offset = node.reshape(weight_zero, [-1, *[1] * (rank - 1)]) if node.rank(weight_zero) else weight_zero
        kernel = node.op("Sub", kernel, node.cast(offset, TensorProto.INT32))
    node.copy(pads=None, auto_pad=None).input[:] = [image, kernel]
