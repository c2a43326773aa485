"""Mixtures of experts of the domain com.microsoft: each row goes to the experts that a router ranks highest.

Every expert is computed for every row, and the results of those that were not chosen are left out. Source:
docs/ContribOperators.md of onnxruntime, and what its kernels for processors compute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from numc.frontends.onnx.rewrites.domains.contrib import unpacked
from numc.frontends.onnx.rewrites.node import Array, Node, RefusedError

_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """The products of all experts: matrices [experts, inputs, outputs] and biases [experts, outputs], "" for none."""

    weight: str
    bias: str


def experts(node: Node) -> None:
    """MoE: weights are floats, [experts, outputs, inputs]."""
    layers = [
        _Layer(weight=node.transpose(node.input(n), 0, 2, 1), bias=node.input(n + 1)) if node.input(n) else None
        for n in (2, 4, 6)
    ]
    _mixed(node, layers, "")


def quantized_experts(node: Node) -> None:
    """QMoE: weights are integers of 2, 4 or 8 bits, which are expanded when the model is compiled."""
    node.refuse_attribute("quant_type", "int")
    if node.attribute("weights_prepacked", 0) > 0:
        raise RefusedError("its attribute weights_prepacked is 1: weights in the order of a kernel are not available")
    if any(map(node.input, range(15, len(node.proto.input)))):
        raise RefusedError("its global and activation scales are not available")
    layers = [
        _Layer(weight=_expanded(node, n, number), bias=node.input(n + 2)) if node.input(n) else None
        for number, n in enumerate((2, 5, 8))
    ]
    _mixed(node, layers, node.input(14))


def _expanded(node: Node, n: int, number: int) -> str:
    """The weights of all experts as float32, [experts, inputs, outputs], from inputs n, n + 1 and 11 + number."""
    bits = node.attribute(f"fc{number + 1}_expert_weight_bits", node.attribute("expert_weight_bits", 4))
    packed, scales = node.constant_input(n, "weight"), node.constant_input(n + 1, "scales")
    zeros = node.constant_input(11 + number, "zero points")
    if bits not in (2, 4, 8) or packed is None or scales is None or packed.ndim != 3 or packed.dtype != np.uint8:
        raise RefusedError(f"its weight '{node.input(n)}' of {bits} bits: want bytes [experts, outputs, bytes of the "
                           "inputs] of 2, 4 or 8 bits, with scales")  # fmt: skip
    codes = unpacked(packed, bits).astype(np.float32)
    count, rows, columns = codes.shape
    block = node.attribute("block_size", 0) or columns
    factor = scales.astype(np.float32).reshape(count, rows, -1)
    if columns % block or factor.shape[2] != columns // block:
        raise RefusedError(f"its scales '{node.input(n + 1)}' are [{count}, {rows}, {factor.shape[2]}]: want one for "
                           f"each {block} of {columns} inputs")  # fmt: skip
    zero = _zero_points(zeros, bits, factor.shape)
    blocks = np.arange(columns) // block
    values = (codes - zero[:, :, blocks]) * factor[:, :, blocks]
    return node.constant(values.transpose(0, 2, 1), np.float32)


def _zero_points(packed: Array | None, bits: int, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The zero points of blocks; those of one block a row are packed along the rows."""
    if packed is None or not packed.size:
        return np.full(shape, 2 ** (bits - 1), np.float32)
    count, rows, blocks = shape
    if packed.ndim == 2 and blocks == 1:
        return unpacked(packed, bits)[:, :rows, None].astype(np.float32)
    return unpacked(packed.reshape(count, rows, -1), bits)[:, :, :blocks].astype(np.float32)


def _mixed(node: Node, layers: list[_Layer | None], routing: str) -> None:
    """Emit the sum of the results of the chosen experts, each times its weight.

    routing: what weights are taken from instead of the router's probabilities, "" for these.
    """
    first, second, third = layers
    if first is None or second is None:
        raise RefusedError("its weights of fc1 or fc2 are missing")
    if third is not None:
        raise RefusedError("weights of fc3 are not available: want both halves in fc1, with swiglu_fusion=1")
    for name in ("use_sparse_mixer", "swiglu_limit_after_activation"):
        node.refuse_attribute(name, 0)
    source = node.input(0)
    width = node.shape(source)[-1]
    if width is None:
        raise RefusedError(f"'{source}' has no fixed size in its last dimension")
    rows = node.op("Unsqueeze", node.reshape(source, [-1, width]), node.ints(0))
    hidden = _activated(node, _product(node, rows, first))
    results = _product(node, hidden, second)
    share = node.op("Unsqueeze", node.transpose(_shares(node, routing), 1, 0), node.ints(2))
    zero = node.constant(0, np.float32)
    parts = node.op("Where", node.op("Equal", share, zero), zero, node.op("Mul", results, share))
    total = node.op("ReduceSum", parts, node.ints(0), keepdims=0)
    node.reshape(total, [node.size(source, d) for d in range(node.rank(source))], to=node.output(0))


def _product(node: Node, rows: str, layer: _Layer) -> str:
    product = node.op("MatMul", rows, layer.weight)
    return node.op("Add", product, node.op("Unsqueeze", layer.bias, node.ints(1))) if layer.bias else product


def _activated(node: Node, value: str) -> str:
    activation, op = node.attribute("activation_type", "relu"), node.op
    if activation not in _ACTIVATIONS:
        raise RefusedError(f"its activation_type is '{activation}': want {', '.join(_ACTIVATIONS)}")
    if activation == "relu":
        return op("Relu", value)
    if activation == "silu":
        return op("Mul", value, op("Sigmoid", value))
    if activation == "gelu":
        cube = op("Mul", op("Mul", value, value), value)
        inner = op("Add", value, op("Mul", cube, node.constant(0.044715, np.float32)))
        inner = op("Tanh", op("Mul", inner, node.constant(math.sqrt(2 / math.pi), np.float32)))
        half = op("Mul", value, node.constant(0.5, np.float32))
        return op("Mul", half, op("Add", inner, node.constant(1, np.float32)))
    return _swiglu(node, value) if activation == "swiglu" else value


def _swiglu(node: Node, value: str) -> str:
    """Emit G sigmoid(alpha G) (L + beta), where G and L are between each other, or one behind the other."""
    fusion, op = node.attribute("swiglu_fusion", 0), node.op
    size = node.shape(node.input(2))[1]
    if fusion not in (1, 2) or size is None or size % 2:
        raise RefusedError(f"its swiglu_fusion is {fusion}, with {size} rows of fc1: want 1 or 2, with both halves")
    if fusion == 1:
        gate, linear = (node.cut(value, 2, n, size, step=2) for n in (0, 1))
    else:
        gate, linear = node.cut(value, 2, 0, size // 2), node.cut(value, 2, size // 2, size)
    limit = node.attribute("swiglu_limit", math.inf)
    if math.isfinite(limit):
        low, high = (node.constant(sign * limit, np.float32) for sign in (-1, 1))
        gate, linear = op("Min", gate, high), op("Clip", linear, low, high)
    slope = node.constant(node.attribute("activation_alpha", 1.0), np.float32)
    gate = op("Mul", gate, op("Sigmoid", op("Mul", gate, slope)))
    return op("Mul", gate, op("Add", linear, node.constant(node.attribute("activation_beta", 0.0), np.float32)))


def _shares(node: Node, routing: str) -> str:
    """Emit the weight of each expert in each row, [rows, experts]: 0 for those that are not among the first `k`."""
    op, scores = node.op, node.input(1)
    count = node.shape(scores)[1]
    chosen = node.attribute("k", 1)
    if count is None or not 1 <= chosen <= count:
        raise RefusedError(f"its k is {chosen} of {count} experts: want 1 to their number, which is fixed")
    probabilities = op("Softmax", scores, axis=-1)
    values, places = node.ops("TopK", [probabilities, node.ints(chosen)], [node.fresh(), node.fresh()], axis=-1)
    if routing:
        values = op("GatherElements", routing, places, axis=1)
    if node.attribute("normalize_routing_weights", 0):
        values = op("Div", values, op("ReduceSum", values, node.ints(1), keepdims=1))
    is_here = op("Equal", op("Unsqueeze", places, node.ints(2)), node.constant(np.arange(count), np.int64))
    at_places = op("Mul", node.cast(is_here, TensorProto.FLOAT), op("Unsqueeze", values, node.ints(2)))
    return op("ReduceSum", at_places, node.ints(1), keepdims=0)


RULES = {"MoE": experts, "QMoE": quantized_experts}
