"""Operators of the domain com.microsoft on quantised numbers, and those that fuse an activation.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from numc.frontends.onnx.rewrites.domains.attention import attention_of
from numc.frontends.onnx.rewrites.domains.contrib import fast_gelu, unpacked
from numc.frontends.onnx.rewrites.node import Node, RefusedError
from numc.frontends.onnx.rewrites.quantized import centred, rows_of, saturated, scalar, stacked

MS = "com.microsoft"


def real(node: Node, n: int, value: str = "") -> str:
    """Emit the float32 numbers of three inputs: values, or `value` in their place, their scale and zero point."""
    scale, zero = node.input(n + 1), node.input(n + 2)
    whole = centred(node, value or node.input(n), zero)
    return node.op("Mul", node.cast(whole, TensorProto.FLOAT), scalar(node, scale))


def stored(node: Node, value: str, n: int, like: str, to: str = "") -> None:
    """Emit float32 numbers with the scale and the zero point of two inputs as the result, or as `to`."""
    scale, zero = scalar(node, node.input(n)), node.input(n + 1)
    rounded = node.op("Round", node.op("Div", value, scale))
    saturated(node, rounded, scalar(node, zero) if zero else "", node.dtype(zero or like), to or node.output(0))


def elementwise(node: Node) -> None:
    """QLinearAdd, QLinearMul."""
    operator = node.proto.op_type.removeprefix("QLinear")
    stored(node, node.op(operator, real(node, 0), real(node, 3)), 6, node.input(0))


def function(node: Node) -> None:
    """QLinearSigmoid, QLinearLeakyRelu, of one operand."""
    operator = node.proto.op_type.removeprefix("QLinear")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.proto.attribute}
    stored(node, node.op(operator, real(node, 0), **attributes), 3, node.input(0))


def softmax(node: Node) -> None:
    """QLinearSoftmax: before opset 13, of all that an axis and those behind it hold."""
    axis, value = node.attribute("axis", -1), real(node, 0)
    rank = node.rank(node.input(0))
    if node.attribute("opset", 13) >= 13:
        stored(node, node.op("Softmax", value, axis=axis), 3, node.input(0))
        return
    sizes = [node.size(node.input(0), d) for d in range(rank)]
    flat = node.reshape(value, [node.product(*sizes[: axis % rank]), node.product(*sizes[axis % rank :])])
    stored(node, node.reshape(node.op("Softmax", flat, axis=-1), sizes), 3, node.input(0))


def where(node: Node) -> None:
    """QLinearWhere."""
    stored(node, node.op("Where", node.input(0), real(node, 1), real(node, 4)), 7, node.input(1))


def concat(node: Node) -> None:
    """QLinearConcat."""
    parts = [real(node, n) for n in range(2, len(node.proto.input), 3)]
    stored(node, node.op("Concat", *parts, axis=node.attribute("axis", 0)), 0, node.input(2))


def gemm(node: Node) -> None:
    """QGemm: of integers, with a bias of integers."""
    a, a_scale, a_zero, b, b_scale, b_zero, bias = (node.input(n) for n in range(7))
    left, right = centred(node, a, a_zero), _columns(node, b, b_zero)
    left = node.transpose(left, 1, 0) if node.attribute("transA", 0) else left
    right = node.transpose(right, 1, 0) if node.attribute("transB", 0) else right
    total = node.op("MatMul", left, right)
    total = node.op("Add", total, bias) if bias else total
    factor = node.op("Mul", node.constant(node.attribute("alpha", 1.0), np.float32), node.op("Mul", a_scale, b_scale))
    real = node.op("Mul", node.cast(total, TensorProto.FLOAT), factor)
    if node.input(7):
        stored(node, real, 7, a)
    else:
        node.op("Identity", real, to=node.output(0))


def _columns(node: Node, value: str, zero: str) -> str:
    """Emit the integers of a matrix, less one zero point or one for each column, as int32."""
    if not zero or node.shape(zero) in ([], [1]):
        return centred(node, value, zero)
    if node.attribute("transB", 0):
        zero = node.reshape(zero, [-1, 1])
    return node.op("Sub", node.cast(value, TensorProto.INT32), node.cast(zero, TensorProto.INT32))


def integers_of_16_bits(node: Node) -> None:
    """MatMulInteger16: sums are modulo 2^32."""
    node.op("MatMul", *(node.cast(node.input(n), TensorProto.INT32) for n in (0, 1)), to=node.output(0))


def to_float(node: Node) -> None:
    """MatMulIntegerToFloat."""
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (node.input(n) for n in range(7))
    product = node.op("MatMul", centred(node, rows_of(node, a, b), a_zero), _columns(node, b, b_zero))
    _scaled(node, stacked(node, product, a, b), node.op("Mul", a_scale, b_scale), bias)


def dynamic(node: Node) -> None:
    """DynamicQuantizeMatMul: the first operand is quantised in the run."""
    a, b, b_scale, b_zero, bias = (node.input(n) for n in range(5))
    value, scale, zero = node.ops("DynamicQuantizeLinear", [rows_of(node, a, b)], [node.fresh() for _ in range(3)])
    left = node.op("Sub", node.cast(value, TensorProto.INT32), node.cast(zero, TensorProto.INT32))
    product = node.op("MatMul", left, _columns(node, b, b_zero))
    _scaled(node, stacked(node, product, a, b), node.op("Mul", scale, b_scale), bias)


def _scaled(node: Node, product: str, factor: str, bias: str) -> None:
    real = node.op("Mul", node.cast(product, TensorProto.FLOAT), factor, to="" if bias else node.output(0))
    if bias:
        node.op("Add", real, bias, to=node.output(0))


def attention(node: Node) -> None:
    """QAttention: of the product of integers, times both scales, a bias is added in float32."""
    source, weight, bias, scale, weight_scale, mask, zero, weight_zero, past = (node.input(n) for n in range(9))
    product = node.op("MatMul", centred(node, rows_of(node, source, weight), zero), _columns(node, weight, weight_zero))
    real_product = node.cast(stacked(node, product, source, weight), TensorProto.FLOAT)
    value = node.op("Mul", real_product, node.op("Mul", scalar(node, scale), weight_scale))
    attention_of(node, node.op("Add", value, bias), mask, past)


def embed_layer_normalization(node: Node) -> None:
    """QEmbedLayerNormalization: EmbedLayerNormalization of tables, factors and a bias that are quantised."""
    words, segments = node.input(0), node.input(1)
    tables = [_dequantized(node, 2 + n, 8 + n, 13 + n) if node.input(2 + n) else "" for n in range(5)]
    node.ops(
        "EmbedLayerNormalization",
        [words, segments, *tables, node.input(7)],
        list(node.proto.output),
        domain=MS,
        epsilon=node.attribute("epsilon", None),
    )


def _dequantized(node: Node, value: int, scale: int, zero: int) -> str:
    whole = centred(node, node.input(value), node.input(zero))
    return node.op("Mul", node.cast(whole, TensorProto.FLOAT), scalar(node, node.input(scale)))


def lstm(node: Node) -> None:
    """DynamicQuantizeLSTM: the input is quantised as a whole; what one step gives to the next stays float32.

    onnxruntime quantises that in every step, too, in groups of sequences that depend on its number of threads.
    """
    value, scale, zero = node.ops("DynamicQuantizeLinear", [node.input(0)], [node.fresh() for _ in range(3)])
    source = node.op("DequantizeLinear", value, scale, zero)
    weights = []
    for n, first in ((1, 8), (2, 10)):  # as [directions, inputs, 4 * hidden]
        factor, offset = (_beside(node, node.input(k)) for k in (first, first + 1))
        wide = node.cast(node.input(n), TensorProto.INT32)
        wide = node.op("Sub", wide, node.cast(offset, TensorProto.INT32)) if offset else wide
        real = node.op("Mul", node.cast(wide, TensorProto.FLOAT), factor)
        weights.append(node.transpose(real, 0, 2, 1))
    copy = node.copy()
    copy.op_type, copy.domain = "LSTM", ""
    copy.input[:] = [source, *weights, *node.proto.input[3:8]]


def _beside(node: Node, name: str) -> str:
    """Emit numbers of directions, or of their columns, so that they fit [directions, inputs, columns]."""
    rank = node.rank(name) if name else 0
    return node.op("Unsqueeze", name, node.ints(*([1, 2] if rank == 1 else [1]))) if name else ""


_ACTIVATIONS = {"Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}


def _activated(node: Node, value: str, params: list[float]) -> None:
    name = node.attribute("activation", "")
    if name == "Clip" and len(params) == 2:
        node.op("Clip", value, *(node.constant(p, np.float32) for p in params), to=node.output(0))
    elif name in _ACTIVATIONS:
        attributes = dict(zip(_ACTIVATIONS[name], params, strict=False))
        node.op(name, value, to=node.output(0), **attributes)
    elif name:
        raise RefusedError(f"its activation '{name}' is not available: {', '.join(sorted(_ACTIVATIONS))} and Clip are")
    else:
        node.op("Identity", value, to=node.output(0))


def fused_conv(node: Node) -> None:
    """FusedConv: a Conv, something that is added, and an activation."""
    value = node.fresh()
    copy = node.copy(activation=None, activation_params=None)
    copy.op_type, copy.domain = "Conv", ""
    copy.input[:] = list(filter(None, node.proto.input[:3]))
    copy.output[:] = [value]
    if node.input(3):
        value = node.op("Add", value, node.input(3))
    _activated(node, value, [float(p) for p in node.attribute("activation_params", [])])


def fused_gemm(node: Node) -> None:
    """FusedGemm: a Gemm and an activation."""
    value = node.fresh()
    extra = ("activation", "activation_alpha", "activation_beta", "activation_gamma")
    copy = node.copy(**dict.fromkeys(extra))
    copy.op_type, copy.domain = "Gemm", ""
    copy.output[:] = [value]
    params = [float(a.f) for name in extra[1:] for a in node.proto.attribute if a.name == name]
    _activated(node, value, params)


def gemm_fast_gelu(node: Node) -> None:
    """GemmFastGelu: a product of matrices and FastGelu."""
    product = node.op("MatMul", node.input(0), node.input(1))
    fast_gelu(node, product, node.input(2))


def gather_blocks(node: Node) -> None:
    """GatherBlockQuantized: parts of a tensor whose blocks have scales and zero points."""
    data, scales, zeros = node.input(0), node.input(2), node.input(3)
    block, bits = node.attribute("block_size", 128), node.attribute("bits", 4)
    rank, places = node.rank(data), node.rank(node.input(1))
    gathered, blocked = node.attribute("gather_axis", 0) % rank, node.attribute("quantize_axis", 1) % rank
    middle = 0
    if node.dtype(data) == TensorProto.UINT8:
        middle = 1 << (bits - 1)
        data, zeros = (_wide(node, n, bits) if node.input(n) else "" for n in (0, 3))
    length = node.shape(data)[blocked]
    if length is None:
        raise RefusedError("its data has free sizes: give shapes={...} or --shape")
    block = block or length
    blocks = node.constant(np.arange(length) // block, np.int64)
    axis = blocked if blocked < gathered else blocked + places - 1  # where the places have come before it

    def chosen(value: str) -> str:
        return node.op("Gather", value, node.input(1), axis=gathered)

    def of_elements(value: str) -> str:
        if gathered == blocked:
            return chosen(node.op("Gather", value, blocks, axis=blocked))
        return node.op("Gather", chosen(value), blocks, axis=axis)

    rows = node.cast(chosen(data), TensorProto.FLOAT)
    factor = of_elements(scales)
    if zeros:
        rows = node.op("Sub", rows, node.cast(of_elements(zeros), TensorProto.FLOAT))
    elif middle:
        rows = node.op("Sub", rows, node.constant(middle, np.float32))
    node.op("Mul", rows, factor, to=node.output(0))


def _wide(node: Node, n: int, bits: int) -> str:
    """The numbers in the bytes of a constant."""
    value = node.constant_input(n, "data")
    return node.constant(value if bits == 8 else unpacked(value, bits), np.uint8)


RULES = {
    "DynamicQuantizeLSTM": lstm,
    "DynamicQuantizeMatMul": dynamic,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "GatherBlockQuantized": gather_blocks,
    "GemmFastGelu": gemm_fast_gelu,
    "MatMulInteger16": integers_of_16_bits,
    "MatMulIntegerToFloat": to_float,
    "QAttention": attention,
    "QEmbedLayerNormalization": embed_layer_normalization,
    "QGemm": gemm,
    "QLinearAdd": elementwise,
    "QLinearConcat": concat,
    "QLinearLeakyRelu": function,
    "QLinearMul": elementwise,
    "QLinearSigmoid": function,
    "QLinearSoftmax": softmax,
    "QLinearWhere": where,
}
