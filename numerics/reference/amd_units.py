"""The datapaths ``dot``, ``pairwise`` and ``staged``: how AMD's matrix units add a block of products.

Source: Xie et al., MMA-Sim (2025), whose model is bit for bit what the instructions of CDNA1 to CDNA3 compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from numc.numerics.exact.value import ONE, POINT, PRODUCT_POINT, Value, exact_fma, exact_sum
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import rounder
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.fused import exponent_of

_Parts = tuple[Value, ...]
_Block = Callable[[Sequence[_Parts], Sequence[_Parts], Value, int], Value]
_TO_F32 = rounder(FP32, PRODUCT_POINT)
_BELOW = 64  # bits below 2^-PRODUCT_POINT that cut terms may have
_BELOW_ALL = -999  # the exponent of products that are zeros
_LARGEST = 1 << 128 + PRODUCT_POINT  # a product that the unit of CDNA3 takes for an infinity


def dot_block(op: Fma) -> _Block:
    """The exact sum of a block of products and of the accumulator, rounded once."""
    to_acc = rounder(op.acc, PRODUCT_POINT)

    def block(a: Sequence[_Parts], b: Sequence[_Parts], c: Value, noise: int) -> Value:
        total = exact_sum([(x[0], y[0]) for x, y in zip(a, b, strict=True)], c)
        return to_acc(total or 0, noise)  # an exact zero has no sign

    return block


def pairwise_block(op: Fma) -> _Block:
    """Float32 products, added in pairs as a tree, then to the accumulator; what is subnormal may count as zero."""
    length, flushes = op.datapath["l"], bool(op.datapath["flush"])
    to_acc, (to_a, to_b) = rounder(op.acc, POINT), op.singles

    def flushed(x: Value, to: Conversion = FP32) -> Value:
        """`x`, or a zero of its sign if it is subnormal in a format."""
        if flushes and type(x) is int and 0 < abs(x) < 1 << POINT + to.format.emin:
            return 0 if x > 0 else -0.0
        return x

    def add(x: Value, y: Value) -> Value:
        return flushed(_TO_F32(exact_fma(x, ONE, y)))

    def block(a: Sequence[_Parts], b: Sequence[_Parts], c: Value, noise: int) -> Value:
        pairs = zip(a, b, strict=True)
        sums = [flushed(_TO_F32(exact_fma(flushed(x[0], to_a), flushed(y[0], to_b), -0.0))) for x, y in pairs]
        sums += [0] * (length - len(sums))
        while len(sums) > 1:
            twos = [sums[n : n + 2] for n in range(0, len(sums), 2)]
            sums = [add(*two) if len(two) == 2 else two[0] for two in twos]
        c = flushed(c, op.acc)
        return to_acc(add(0 if flushes and c == 0 else c, sums[0]), noise)

    return block


def staged_block(op: Fma) -> _Block:
    """Products aligned to their largest exponent and cut, then their sum aligned with the accumulator, and floored."""
    (to_a, to_b), to, path = op.singles, op.acc, op.datapath
    to_acc = rounder(to, PRODUCT_POINT + _BELOW)
    bits, wide, apart = path["bits"], path["sum"], path["apart"]

    def stage(terms: Sequence[tuple[Value, int]]) -> tuple[int, int]:
        """The sum of products that are cut toward zero, and their largest exponent."""
        top = max([_BELOW_ALL, *(exponent for _, exponent in terms)])
        return sum(_cut(int(value) << _BELOW, top - bits) for value, _ in terms), top

    def block(a: Sequence[_Parts], b: Sequence[_Parts], c: Value, noise: int) -> Value:
        pairs = [_with_infinity(x[0], y[0]) for x, y in zip(a, b, strict=True)]
        if not all(type(value) is int or value == 0 for pair in [*pairs, (c, c)] for value in pair):
            return to_acc(exact_sum(pairs, c), noise)  # an infinity or a NaN
        terms = [(x * y, exponent_of(x, to_a) + exponent_of(y, to_b)) if x and y else (0, _BELOW_ALL) for x, y in pairs]
        if apart:
            stages = [stage(terms[0::2]), stage(terms[1::2])]
            top = max(exponent for _, exponent in stages)
            total = sum(_floor(value, top - bits) for value, _ in stages)
        else:
            total, top = stage(terms)
        least = exponent_of(c, to)
        highest = max(top, least)
        start = _floor(int(c) << POINT + _BELOW, highest - bits)
        if apart and least < highest - bits - 1:
            start = 0
        total = _floor(total, highest - wide - 1) + start
        exponent = max(abs(total).bit_length() - 1 - PRODUCT_POINT - _BELOW, to.format.emin)
        return to_acc(_floor(total, exponent - wide), noise)

    return block


def _with_infinity(x: Value, y: Value) -> tuple[Value, Value]:
    """The factors of a product, one of which is an infinity if the unit takes the product for one."""
    if type(x) is int and type(y) is int and abs(x * y) >= _LARGEST:
        return math.copysign(math.inf, x * y), ONE
    return x, y


def _floor(x: int, quantum: int) -> int:
    """`x`, which counts 2^-(PRODUCT_POINT + _BELOW), floored to a multiple of 2^quantum."""
    low = max(quantum + PRODUCT_POINT + _BELOW, 0)
    return x >> low << low


def _cut(x: int, quantum: int) -> int:
    """`x` cut toward zero to such a multiple."""
    return -_floor(-x, quantum) if x < 0 else _floor(x, quantum)
