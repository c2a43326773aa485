"""Operators of the domain com.microsoft that exporters and optimisers of transformers emit, except attention.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node, RefusedError
from numc.numerics.formats.kinds.table import NF4

_EPSILON = 1e-12


def standard(node: Node) -> None:
    """An operator that is the one of ONNX with the same name."""
    node.copy().domain = ""


def unique(node: Node) -> None:
    """Unique: values in the order in which they come first, where each is among these, and how often it is there."""
    node.ops("Unique", [node.input(0)], [node.output(0), "", node.output(1), node.output(2)], sorted=0)


def expand_dims(node: Node) -> None:
    """ExpandDims is Unsqueeze of one axis."""
    axis = node.constant_input(1, "axis")
    if axis is None:
        raise RefusedError("it has no axis")
    node.op("Unsqueeze", node.input(0), node.ints(int(axis.item())), to=node.output(0))


def gelu(node: Node) -> None:
    """Gelu, BiasGelu."""
    source = node.input(0)
    if node.input(1):
        source = node.op("Add", source, node.input(1))
    half = node.op("Mul", source, node.like(0.5, node.input(0)))
    erf = node.op("Erf", node.op("Div", source, node.like(math.sqrt(2), node.input(0))))
    node.op("Mul", half, node.op("Add", erf, node.like(1, node.input(0))), to=node.output(0))


def fast_gelu(node: Node, product: str = "", bias: str = "") -> None:
    """FastGelu: with tanh. product, bias: in the places of the inputs."""
    source, bias, op = product or node.input(0), bias or ("" if product else node.input(1)), node.op

    def number(value: float) -> str:
        return node.like(value, node.input(0))

    if bias:
        source = op("Add", source, bias)
    cube = op("Mul", op("Mul", op("Mul", source, source), source), number(0.044715))
    inner = op("Tanh", op("Mul", op("Add", source, cube), number(math.sqrt(2 / math.pi))))
    op("Mul", op("Mul", source, number(0.5)), op("Add", inner, number(1)), to=node.output(0))


def quick_gelu(node: Node) -> None:
    """QuickGelu: with a sigmoid."""
    source = node.input(0)
    inner = node.op("Mul", source, node.like(node.attribute("alpha", 1.702), source))
    node.op("Mul", source, node.op("Sigmoid", inner), to=node.output(0))


def fused_mat_mul(node: Node) -> None:
    """FusedMatMul: transposed operands and a factor."""
    for name in ("transBatchA", "transBatchB"):
        node.refuse_attribute(name, 0)
    operands = []
    for n, name in enumerate(("transA", "transB")):
        value = node.input(n)
        rank = node.rank(value)
        if node.attribute(name, 0) and rank > 1:
            value = node.transpose(value, *range(rank - 2), rank - 1, rank - 2)
        operands.append(value)
    product = node.op("MatMul", *operands)
    node.op("Mul", product, node.like(node.attribute("alpha", 1.0), node.input(0)), to=node.output(0))


def mat_mul_n_bits(node: Node) -> None:
    """MatMulNBits: the weight, whose blocks have scales and zero points, is expanded when the model is compiled."""
    k, n, block = node.attribute("K", 0), node.attribute("N", 0), node.attribute("block_size", 0)
    bits = node.attribute("bits", 4)
    node.refuse_attribute("weight_prepacked", 0)
    packed, scales = node.constant_input(1, "weight"), node.constant_input(2, "scales")
    zeros, order = node.constant_input(3, "zero points"), node.constant_input(4, "g_idx")
    if bits not in (2, 4, 8) or packed is None or scales is None or min(k, n, block) < 1:
        raise RefusedError(f"bits={bits}, block_size={block}, K={k}, N={n}: 2, 4 and 8 bits in blocks are available")
    blocks = -(-k // block)
    values = unpacked(packed.reshape(n, blocks, -1), bits)[..., :block].reshape(n, -1)[:, :k]
    group = np.arange(k) // block if order is None or not order.size else order.reshape(-1)[:k]
    if len(group) < k or group.min() < 0 or group.max() >= blocks:
        wanted = f"want {k} numbers from 0 to {blocks - 1}"
        raise RefusedError(f"its input g_idx does not name a block for each row: {wanted}")
    if scales.dtype != np.float32:
        raise RefusedError(f"its scales are {scales.dtype}: float32 is available")
    scale = scales.reshape(n, blocks).astype(np.float32)
    if zeros is None or not zeros.size:
        zero = np.full((n, blocks), 2 ** (bits - 1), dtype=np.float32)
    elif zeros.dtype == np.uint8:
        zero = unpacked(zeros.reshape(n, -1), bits)[:, :blocks].astype(np.float32)
    else:
        zero = zeros.reshape(n, blocks).astype(np.float32)
    weight = (values.astype(np.float32) - zero[:, group]) * scale[:, group]
    product = node.op("MatMul", node.input(0), node.constant(weight.T, np.float32), to="" if node.input(5) else
                      node.output(0))  # fmt: skip
    if node.input(5):
        node.op("Add", product, node.input(5), to=node.output(0))


_QUARTER = (0.0, 0.005208333333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_TABLES = ((*_QUARTER, *(-value for value in _QUARTER)), NF4)
"""The values of the codes of bitsandbytes, by quant_type: FP4 and NF4."""


def mat_mul_bnb4(node: Node) -> None:
    """MatMulBnb4: the weight, in blocks of codes of bitsandbytes, is expanded when the model is compiled."""
    k, n, block = node.attribute("K", 0), node.attribute("N", 0), node.attribute("block_size", 0)
    table = node.attribute("quant_type", 0)
    packed, largest = node.constant_input(1, "weight"), node.constant_input(2, "absmax")
    if table not in (0, 1) or packed is None or largest is None or min(k, n, block) < 1:
        raise RefusedError(f"quant_type={table}, block_size={block}, K={k}, N={n}: 0 (FP4) and 1 (NF4) are available")
    node.refuse_attribute("transB", 1)
    if largest.dtype != np.float32 or packed.size != -(-k * n // 2) or largest.size != -(-k * n // block):
        raise RefusedError(f"its weight is {packed.size} bytes with {largest.size} {largest.dtype}: want "
                           f"{-(-k * n // 2)} bytes with {-(-k * n // block)} float32")  # fmt: skip
    pairs = packed.reshape(-1).astype(np.uint8)
    codes = np.stack([pairs >> 4, pairs & 15], axis=-1).reshape(-1)[: k * n]
    values = (
        np.array(_TABLES[table], np.float32)[codes] * np.repeat(largest.reshape(-1).astype(np.float32), block)[: k * n]
    )
    node.op("MatMul", node.input(0), node.constant(values.reshape(n, k).T, np.float32), to=node.output(0))


def unpacked(data: Any, bits: int) -> npt.NDArray[np.uint8]:
    """The numbers in the bytes of the last axis, of which the low bits come first."""
    parts = [(data >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*data.shape[:-1], -1)


def _rms(node: Node, source: str, scale: str, to: str, inverse: str = "") -> None:
    """Emit a value over the root of the mean of its squares along the last axis."""
    mean = node.op("ReduceMean", node.op("Mul", source, source), node.ints(-1))
    epsilon = node.like(node.attribute("epsilon", 1e-5), node.input(0))
    root = node.op("Sqrt", node.op("Add", mean, epsilon))
    if inverse:
        node.op("Reciprocal", root, to=inverse)
    node.op("Mul", node.op("Div", source, root), scale, to=to)


def simplified_layer_normalization(node: Node) -> None:
    """SimplifiedLayerNormalization, which is RMSNormalization."""
    source = node.input(0)
    if node.attribute("axis", -1) not in (-1, node.rank(source) - 1):
        raise RefusedError("it is available along the last axis only")
    _rms(node, source, node.input(1), node.output(0), node.output(1))


def _skipped(node: Node, bias: int) -> str:
    """Emit the sum of what a normalisation takes."""
    total = node.op("Add", node.input(0), node.input(1))
    if node.input(bias):
        total = node.op("Add", total, node.input(bias))
    if node.output(3):
        node.op("Identity", total, to=node.output(3))
    if node.output(1) or node.output(2):
        raise RefusedError("its outputs mean and inv_std_var are not available")
    return total


def skip_layer_normalization(node: Node) -> None:
    """SkipLayerNormalization: a sum is normalised."""
    total = _skipped(node, 4)
    inputs = [total, node.input(2), *filter(None, [node.input(3)])]
    node.op("LayerNormalization", *inputs, axis=-1, epsilon=node.attribute("epsilon", _EPSILON), to=node.output(0))


def skip_simplified_layer_normalization(node: Node) -> None:
    """SkipSimplifiedLayerNormalization."""
    _rms(node, _skipped(node, 3), node.input(2), node.output(0))


def embed_layer_normalization(node: Node) -> None:
    """EmbedLayerNormalization: the sum of the embeddings of words, positions and segments, normalised."""
    words, segments, word, position, segment, gamma, beta, mask, places = (node.input(n) for n in range(9))
    total = node.op("Gather", word, words, axis=0)
    length = node.size(words, 1)
    if places:
        where = node.op("Gather", position, places, axis=0)
    else:
        where = node.op("Gather", position, node.steps(length), axis=0)
    total = node.op("Add", total, where)
    if segments:
        total = node.op("Add", total, node.op("Gather", segment, segments, axis=0))
    epsilon = node.attribute("epsilon", _EPSILON)
    node.op("LayerNormalization", total, gamma, beta, axis=-1, epsilon=epsilon, to=node.output(0))
    if node.output(2):
        node.op("Identity", total, to=node.output(2))
    if node.output(1):
        counted = mask or node.op("Mul", words, node.like(0, words))
        node.op("ReduceSum", node.cast(counted, TensorProto.INT32), node.ints(1), keepdims=0, to=node.output(1))
