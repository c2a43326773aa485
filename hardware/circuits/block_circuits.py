"""The datapaths of blocks of products as circuits: fused, dot, pairwise and staged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from numc.hardware.circuits.exact_real import Real, high, low
from numc.hardware.circuits.reals import decode, encode, flushed, multiply
from numc.hardware.circuits.sums import add, exact_sum, of_integer, shift_down, to_binary32
from numc.numerics.circuits import Whole, field, leading_zeros, maximum, minimum, select
from numc.numerics.formats import Format, Record
from numc.numerics.operators import FP32, Fma
from numc.support.errors import NumcError

_NONE = -1 << 10
"""The exponent of no product at all, below that of every number."""


def block_circuit(op: Fma, length: int, operands: tuple[Whole, Whole], c: Whole, noise: Whole) -> Whole:
    """The code of the new accumulator of a block of products."""
    to_a, to_b = op.singles
    x, y = (
        [decode(to.format, field(codes, n * to.format.bits, to.format.bits)) for n in range(length)]
        for to, codes in zip((to_a, to_b), operands, strict=True)
    )
    if not all(isinstance(to.format, Record) for to in (to_a, to_b, op.acc)):
        raise NumcError(f"operator '{op}' has no circuit: its blocks take binary records, want formats such as eXmY")
    return _BLOCKS[op.datapath.name](op, x, y, decode(op.acc.format, c), noise)


def exponent_of(x: Real, fmt: Format) -> Whole:
    """The exponent of a number that was decoded: that of subnormal numbers is the least one."""
    assert isinstance(fmt, Record)
    return x.exponent + fmt.significand_bits


def _fused(op: Fma, x: Sequence[Real], y: Sequence[Real], c: Real, noise: Whole) -> Whole:
    (to_a, to_b), path = op.singles, op.datapath
    terms = [
        (multiply(i, j), exponent_of(i, to_a.format) + exponent_of(j, to_b.format)) for i, j in zip(x, y, strict=True)
    ]
    terms.append((c, exponent_of(c, op.acc.format)))
    top = largest(terms, path["least"])
    total = aligned(terms, top, path["bits"])
    return rounded_block(op, of_integer(total, top - path["bits"], [term for term, _ in terms]), noise)


def rounded_block(op: Fma, x: Real, noise: Whole) -> Whole:
    """The code of the sum of a block and of the accumulator."""
    return _without_minus_zero(op, _infinite_beyond(op, x), noise)


def largest(terms: Sequence[tuple[Real, Whole]], least: int) -> Whole:
    """The largest exponent of the terms that are not zero."""
    return maximum(least, *(select(term.significand == 0, least, exponent) for term, exponent in terms))


def aligned(terms: Sequence[tuple[Real, Whole]], top: Whole, bits: int) -> Whole:
    """The sum of terms that are cut toward zero to multiples of 2^(top - bits), in these."""
    total: Whole = 0
    for term, exponent in terms:
        fraction = high(exponent) - high(term.exponent)  # the bits of a significand below its exponent
        size = term.significand << max(bits - fraction, 0)
        down = maximum(top - exponent, 0) + max(fraction - bits, 0)
        size = shift_down(size, down)
        total = total + select(term.sign, -size, size)
    return total


def _infinite_beyond(op: Fma, x: Real) -> Real:
    """`x`, or an infinity from 2^(emax + 1) on, whatever the rounding, where the format has infinities."""
    fmt = op.acc.format
    if not fmt.has_infinities or op.acc.saturates:
        return x
    top = x.exponent + (x.bits - 1) - leading_zeros(x.significand, x.bits)
    beyond = (top > fmt.emax) & (x.significand != 0) & (x.special ^ 1)
    return replace(x, infinite=x.infinite | beyond)


def _without_minus_zero(op: Fma, x: Real, noise: Whole) -> Whole:
    code = encode(x, op.acc, noise)
    minus_zero = 1 << op.acc.format.bits - 1
    return select(code == minus_zero, 0, code) if op.acc.format.has_minus_zero else code


def _dot(op: Fma, x: Sequence[Real], y: Sequence[Real], c: Real, noise: Whole) -> Whole:
    products = [multiply(i, j) for i, j in zip(x, y, strict=True)]
    return encode(exact_sum([*products, c], signed_zero=False), op.acc, noise)


def _pairwise(op: Fma, x: Sequence[Real], y: Sequence[Real], c: Real, noise: Whole) -> Whole:
    flushes, (to_a, to_b), acc = bool(op.datapath["flush"]), op.singles, op.acc.format

    def daz(value: Real, fmt: Format) -> Real:
        return flushed(value, fmt) if flushes else value

    def rounded(value: Real) -> Real:
        return daz(to_binary32(value), FP32.format)

    sums = [rounded(multiply(daz(i, to_a.format), daz(j, to_b.format))) for i, j in zip(x, y, strict=True)]
    while len(sums) > 1:
        pairs = [sums[n : n + 2] for n in range(0, len(sums), 2)]
        sums = [rounded(add(pair[0], pair[1], FP32)) if len(pair) == 2 else pair[0] for pair in pairs]
    start = daz(c, acc)
    if flushes:
        start = replace(start, sign=select(start.is_zero, 0, start.sign))
    return encode(rounded(add(start, sums[0], FP32)), op.acc, noise)


def _staged(op: Fma, x: Sequence[Real], y: Sequence[Real], c: Real, noise: Whole) -> Whole:
    (to_a, to_b), path = op.singles, op.datapath
    bits, wide, apart = path["bits"], path["sum"], path["apart"]
    terms = []
    for i, j in zip(x, y, strict=True):
        product = multiply(i, j)
        exponent = exponent_of(i, to_a.format) + exponent_of(j, to_b.format)
        terms.append((_infinite_product(product), exponent))
    halves = [terms[0::2], terms[1::2]] if apart else [terms]
    tops = [largest(half, _NONE) for half in halves]
    top = maximum(*tops) if apart else tops[0]
    total: Whole = 0
    for half, own in zip(halves, tops, strict=True):
        total = total + shift_down(aligned(half, own, bits), top - own)
    least = exponent_of(c, op.acc.format)
    highest = maximum(top, least)
    start = _floored(c, highest - bits, bits - _fraction_bits(op))
    if apart:
        start = select(least < highest - bits - 1, 0, start)
    below = max(wide + 1 - bits, 0)  # the bits of the sum below those of its terms
    more = max(bits - wide - 1, 0)
    total = shift_down(total << below, highest - top + more) << more
    total = total + (start << below)
    unit = highest - bits - below
    real = of_integer(_top_bits(total, wide, unit, op), unit, [*(term for term, _ in terms), c])
    return encode(real, op.acc, noise)


def _infinite_product(x: Real) -> Real:
    """A product of 2^128 or more is an infinity."""
    if high(x.exponent) + x.bits <= 128:
        return x
    top = x.exponent + (x.bits - 1) - leading_zeros(x.significand, x.bits)
    return replace(x, infinite=x.infinite | (top >= 128) & (x.significand != 0) & (x.special ^ 1))


def _fraction_bits(op: Fma) -> int:
    assert isinstance(op.acc.format, Record)
    return op.acc.format.significand_bits


def _floored(x: Real, quantum: Whole, most: int) -> Whole:
    """`x` floored to a multiple of 2^quantum, in these; its last place is at most `most` bits above."""
    up = x.exponent - quantum
    left = minimum(maximum(up, 0), max(most, 0))
    size = select(x.sign, -x.significand, x.significand) << left
    return shift_down(size, maximum(-up, 0))


def _top_bits(x: Whole, wide: int, exponent: Whole, op: Fma) -> Whole:
    """`x` floored to `wide` bits below its highest one, or below the least exponent of the accumulator."""
    size = maximum(x, -x)
    bits = max(high(x), -low(x)).bit_length()
    top = bits - 1 - leading_zeros(maximum(size, 0), bits)
    down = maximum(maximum(top + exponent, op.acc.format.emin) - wide - exponent, 0)
    down = minimum(down, bits + 1)
    return x >> down << down


_Block = Callable[[Fma, Sequence[Real], Sequence[Real], Real, Whole], Whole]
_BLOCKS: dict[str, _Block] = {"fused": _fused, "dot": _dot, "pairwise": _pairwise, "staged": _staged}
