"""The datapath ``fused`` on operands with groups: blocks of elements, whose scales are multiplied inside of their sum.

This is how the block-scaled instructions of matrix units add (Xie et al., MMA-Sim, 2025).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from numc.numerics.exact.value import POINT, PRODUCT_POINT, Value, exact_fma
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import rounder
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.datapaths import Draws
from numc.numerics.reference.fused import exponent_of
from numc.numerics.reference.group_operators import Vector

_TERM_POINT = 4 * POINT  # of products of two elements and two scales: no cut bit is below them
_TO_F32 = rounder(FP32, PRODUCT_POINT)


@dataclass(frozen=True)
class _Run:
    """Successive products that share scales. exponent: that of the scales' product."""

    x: Sequence[Value]
    y: Sequence[Value]
    scales: tuple[Value, Value]
    exponent: int


def scaled_dot(op: Fma, a: Vector, b: Vector, c: Value, draws: Draws) -> Value:
    """One element of a contraction; what tensors are scaled by multiplies the sum that began with +0."""
    of_a, of_b = (each.to.format.tensor_scale(each.to.format.shared(each.largest)) for each in (a, b))
    depth, length, noise = len(a.values), op.datapath["l"], list(draws.of(op, len(a.values)))
    total: Value = 0 if op.shares_tensor else c
    for k in range(0, depth, length):
        total = _block(op, list(_runs(op, a, b, k, min(k + length, depth))), total, noise[k][1])
    if not op.shares_tensor or not depth:
        return c if op.shares_tensor else total
    return scaled_total(total, of_a, of_b, c)


def scaled_total(total: Value, of_a: Value, of_b: Value, c: Value) -> Value:
    """A sum of blocks times the scales of both tensors, added to the binary32 number `c`."""
    return _TO_F32(exact_fma(total, _TO_F32(exact_fma(of_a, of_b, -0.0)), c))


def one_block(op: Fma, a: Vector, b: Vector, c: Value, noise: int) -> Value:
    """A block of elements, quantized with their scales, added to an accumulator."""
    return _block(op, list(_runs(op, a, b, 0, len(a.values))), c, noise)


def _runs(op: Fma, a: Vector, b: Vector, first: int, end: int) -> Iterator[_Run]:
    """The products of a block from step `first` up to `end`, in parts of a group each."""
    assert op.group is not None
    group = op.group.group or 1
    formats = [Conversion(to.format.scales) for to in op.groups or () if to.format.scales is not None]
    size = op.datapath["run"] or min(op.datapath["l"], group)
    for k in range(first, end, size):
        number, begin = divmod(k, group)
        (x, of_x), (y, of_y) = (each.scaled[number] for each in (a, b))
        within = slice(begin, min(begin + size, begin + end - k))
        scales = zip((of_x, of_y), formats, strict=True)
        exponent = 0 if of_x != of_x or of_y != of_y else sum(exponent_of(scale, to) for scale, to in scales)
        yield _Run(x[within], y[within], (of_x, of_y), exponent)


def _block(op: Fma, runs: Sequence[_Run], c: Value, noise: int) -> Value:
    """The sum of a block and of the accumulator, aligned, cut, added and rounded once."""
    to, path, point = op.acc, op.datapath, _TERM_POINT
    to_acc = rounder(to, point)
    if any(scale != scale for run in runs for scale in run.scales):
        return math.nan
    if type(c) is float and c != 0:
        return to_acc(c, noise)  # an infinity or a NaN
    terms = [term for run in runs for term in _terms(op, run)]
    terms += [(int(c) << point - POINT, exponent_of(c, to))] if c else []
    top = max([path["least"], *(exponent for _, exponent in terms)])
    low = top - path["bits"] + point
    total = sum(-(-value >> low << low) if value < 0 else value >> low << low for value, _ in terms)
    if abs(total) >= 1 << to.format.emax + 1 + point and to.format.has_infinities and not to.saturates:
        return math.copysign(math.inf, total)
    return to_acc(total, noise) or 0


def _terms(op: Fma, run: _Run) -> list[tuple[int, int]]:
    """The terms of a run, in units of 2^-_TERM_POINT, and its exponent: products, or their sum without scales."""
    scale = int(run.scales[0]) * int(run.scales[1])
    products = [int(x) * int(y) for x, y in zip(run.x, run.y, strict=True)]
    if op.datapath["run"]:
        return [(sum(products) * scale, run.exponent)] if any(products) and scale else []
    to_a, to_b = op.factors
    exponents = [exponent_of(x, to_a) + exponent_of(y, to_b) for x, y in zip(run.x, run.y, strict=True)]
    pairs = zip(products, exponents, strict=True)
    return [(product * scale, exponent + run.exponent) for product, exponent in pairs if product and scale]
