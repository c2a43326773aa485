"""Integers that torch-mlir computes with as if they were signed, or by way of floats."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import onnx
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node

_BITS = {TensorProto.INT8: 8, TensorProto.UINT8: 8, TensorProto.INT16: 16, TensorProto.INT32: 32, TensorProto.INT64: 64}


BYTES = (TensorProto.INT8, TensorProto.UINT8)


def in_int32(
    rule: Callable[[Node], None] | None = None, narrow: Collection[int] = (TensorProto.UINT8,)
) -> Callable[[Node], None]:
    """A rule by which `narrow` types are computed in int32; another type follows `rule`.

    torch-mlir takes unsigned bytes for signed ones, and crashes on some operators of bytes.
    """

    def rewrite(node: Node) -> None:
        if node.dtype(node.input(0)) not in narrow:
            if rule is not None:
                rule(node)
            return
        compute_in(node, TensorProto.INT32, rule)

    return rewrite


def compute_in(node: Node, wide: int, rule: Callable[[Node], None] | None) -> None:
    """Emit a node, or what `rule` makes of it, with inputs and a result of its type cast to and from another."""
    own, types = node.dtype(node.input(0)), dict(node.types)
    copy = onnx.NodeProto.FromString(node.proto.SerializeToString())
    for n, name in enumerate(node.proto.input):
        if node.dtype(name) == own:
            copy.input[n] = node.cast(name, wide)
            types[copy.input[n]] = type_proto = onnx.TypeProto.FromString(node.type_of(name).SerializeToString())
            type_proto.tensor_type.elem_type = wide
    copy.output[0] = node.fresh()
    casts = len(node.made)
    if rule is not None:
        rule(replace(node, proto=copy, types=types))
    if len(node.made) == casts:
        node.made.append(copy)
    node.cast(copy.output[0], own, to=node.output(0))


def absolute(node: Node) -> None:
    """Abs of unsigned bytes: nothing."""
    if node.dtype(node.input(0)) == TensorProto.UINT8:
        node.op("Identity", node.input(0), to=node.output(0))


def power(node: Node) -> None:
    """Pow of integers, modulo 2 to their bits; below 1, results are rounded towards 0."""
    base, exponent = node.input(0), node.input(1)
    bits = _BITS.get(node.dtype(base), 0)
    if not bits or node.dtype(exponent) not in _BITS:
        return
    result, exponent_type = node.dtype(base), node.dtype(exponent)
    digits = 8 if exponent_type == TensorProto.UINT8 else _BITS[exponent_type] - 1
    if bits < 32:  # torch-mlir has not every operation on them
        base, result = node.cast(base, TensorProto.INT32), TensorProto.INT32
    if _BITS[exponent_type] < 32:
        exponent, exponent_type = node.cast(exponent, TensorProto.INT32), TensorProto.INT32
    known = node.constants.get(node.input(1))
    steps = int(known.max(initial=0)).bit_length() if known is not None else digits
    dtype, counts = (onnx.helper.tensor_dtype_to_np_dtype(each) for each in (result, exponent_type))
    one, zero, two, none = (
        node.constant(value, each) for value, each in ((1, dtype), (0, dtype), (2, counts), (0, counts))
    )
    product, square, rest = one, base, exponent
    for step in range(steps):
        if step:
            square, rest = node.op("Mul", square, square), node.op("Div", rest, two)
        is_odd = node.op("Equal", node.op("Mod", rest, two), node.constant(1, counts))
        product = node.op("Mul", product, node.op("Where", is_odd, square, one))
    if known is None or int(known.min(initial=0)) < 0:
        minus = node.constant(-1, dtype)
        is_odd = node.op("Equal", node.op("Mod", exponent, two), node.constant(1, counts))
        inverse = node.op("Where", node.op("Equal", base, one), one, zero)
        of_minus = node.op("Where", is_odd, minus, one)
        inverse = node.op("Where", node.op("Equal", base, minus), of_minus, inverse)
        product = node.op("Where", node.op("Less", exponent, none), inverse, product)
    shape = node.op("Expand", product, node.op("Shape", exponent)) if not steps else product
    if bits < 32:
        node.cast(shape, node.dtype(node.input(0)), to=node.output(0))
    else:
        node.op("Identity", shape, to=node.output(0))
