"""Operators that users could define: each is a file of theirs that ``numc --define`` takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import numc
from numc.numerics.circuits import (
    Real,
    Whole,
    absolute,
    join,
    lookup,
    maximum,
    minimum,
    rounded,
    saturated,
    scaled,
    select,
    wrapped,
)


@numc.operator(a="bf16", acc="bf16")
def own_1_1(a: Real, b: Real, c: Real) -> Real:
    """bf16_1_1: the sum is rounded to binary32, then to the accumulator."""
    return rounded(a * b + c, "fp32")


@numc.operator(a="e4m3", acc="fp16")
def own_exact(a: Real, b: Real, c: Real) -> Real:
    """The datapath exact."""
    return a * b + c


@numc.operator(a="bf16", acc="bf16")
def own_twice(a: Real, b: Real, c: Real) -> Real:
    """bf16_1_1 in another way: the second rounding changes nothing."""
    return rounded(rounded(a * b + c, "fp32"), "fp32")


@numc.operator(a="bf16", acc="e6m9:odd")
def own_either(a: Real, b: Real, c: Real) -> Real:
    """The datapath exact in another way: both sums are the same."""
    return select(a.sign, a * b + c, b * a + c)


@numc.operator(a="posit8", acc="posit8")
def own_posit(a: Real, b: Real, c: Real) -> Real:
    """A fused multiply-add of posits."""
    return a * b + c


def finite(*numbers: Real) -> Whole:
    """Whether no number is an infinity or a NaN."""
    special: Whole = 0
    for each in numbers:
        special = special | each.is_nan | each.is_infinite
    return 1 - special


@numc.operator(a="bf16", acc="fp32")
def mitchell(a: Real, b: Real, c: Real, *, correction: int = 0) -> Real:
    """Mitchell's multiplier: the product of significands 1 + x and 1 + y is taken for 1 + x + y, or 2 (x + y)."""
    normal = (a.significand >= 128) & (b.significand >= 128)
    fraction = (a.significand - 128) + (b.significand - 128) + correction
    n = select(normal, select(fraction < 128, 128 + fraction, 2 * fraction), 0)
    product = scaled(select(a.sign ^ b.sign, -n, n), a.exponent + b.exponent - 7)
    return select(finite(a, b), rounded(product + c, "fp32"), a * b + c)


#: An approximate 8 x 8 multiplier that leaves out the three lowest columns of the product.
TRUNCATED = [(i * j) & ~7 for i in range(256) for j in range(256)]


@numc.operator(a="bf16", acc="fp32")
def by_table(a: Real, b: Real, c: Real) -> Real:
    """A multiplier of significands by its table."""
    n = lookup(TRUNCATED, join((a.significand, 8), (b.significand, 8)))
    product = scaled(select(a.sign ^ b.sign, -n, n), a.exponent + b.exponent - 14)
    return select(finite(a, b), rounded(product + c, "fp32"), a * b + c)


@numc.reduction(a="bf16", acc="fp32:rtz")
def own_fused(a: Sequence[Real], b: Sequence[Real], c: Real, *, l: int = 8, bits: int = 24, least: int = -132) -> Real:
    """The datapath fused, as Ampere's unit has it for bf16."""
    zero, up = least - 600, bits - 14  # below every exponent; the places of a product above its own last one
    nan, plus, minus = c.is_nan, c.is_infinite & (1 - c.sign), c.is_infinite & c.sign
    terms = [(c.significand << (bits - 23), select(c.is_zero, zero, c.exponent), -c.sign)]
    for x, y in zip(a, b, strict=True):
        sign, infinite = x.sign ^ y.sign, x.is_infinite | y.is_infinite
        nan = nan | x.is_nan | y.is_nan | (x.is_infinite & y.is_zero) | (y.is_infinite & x.is_zero)
        plus, minus = plus | (infinite & (1 - sign)), minus | (infinite & sign)
        exponent = select(x.is_zero, zero, x.exponent) + select(y.is_zero, zero, y.exponent)
        terms.append(((x.significand << up // 2) * (y.significand << up - up // 2), exponent, (-x.sign) ^ (-y.sign)))
    top = maximum(least, *(exponent for _, exponent, _ in terms))
    total: Whole = 0
    for n, exponent, sign in terms:  # all ones where the term is negative
        total = total + (((n >> (top - exponent)) ^ sign) - sign)
    beyond = (top >= 127) & (absolute(total) >= 1 << (bits + 1))  # of the largest exponent
    infinity = select(total > 0, float("inf"), float("-inf"))
    value = select(beyond, infinity, scaled(total, top - bits))
    value = select(plus, float("inf"), select(minus, float("-inf"), value))
    return select(nan | (plus & minus), float("nan"), value)


@numc.operator(
    a="fp8_e4m3", acc="fp32", register=64, last=lambda c, register: rounded(scaled(register, -18), "fp32") + c
)
def kulisch(a: Real, b: Real, register: Whole) -> Whole:
    """Every product is added exactly, in 64 bits with the last one at 2^-18; a NaN counts as zero."""
    n = (a.significand * b.significand) << (a.exponent + b.exponent + 12)
    return wrapped(register + select(a.sign ^ b.sign, -n, n), 64)


@numc.operator(a="bf16", acc="fp32", register=700, last=lambda c, register: rounded(scaled(register, -266), "fp32") + c)
def kulisch_bf16(a: Real, b: Real, register: Whole) -> Whole:
    """Products of bf16 numbers, added exactly in 700 bits."""
    n = (a.significand * b.significand) << (a.exponent + b.exponent + 252)
    return wrapped(register + select(a.sign ^ b.sign, -n, n), 700)


@numc.reduction(
    a="fp8_e4m3", acc="bf16", register=24, last=lambda c, register: rounded(scaled(register, -10), "fp32") + c
)
def saturating(a: Sequence[Real], b: Sequence[Real], register: Whole, *, l: int = 4) -> Whole:
    """Blocks of products that are cut to multiples of 2^-10, in a register of 24 bits that saturates."""
    total: Whole = 0
    for x, y in zip(a, b, strict=True):
        n = (x.significand * y.significand) << maximum(x.exponent + y.exponent + 12, 0) >> 8
        total = total + select(x.sign ^ y.sign, -n, n)
    return saturated(register + total, 24)


# A logarithmic format of 8 bits: code 0 is zero; 1 to 127 are powers 2^(n/8), and 128 to 254 their opposites.
_LOWEST, _COUNT = -63, 127
_POWERS = [float(np.float32(2.0 ** (n / 8))) for n in range(_LOWEST, _LOWEST + _COUNT)]
numc.format_of([0.0, *_POWERS, *(-power for power in _POWERS), float("nan")], name="lns8")
#: round(8 log2(1 + 2^(-d/8))), and the same for differences, which a zero has none of.
_SUMS = [round(8 * math.log2(1 + 2 ** (-d / 8))) for d in range(64)]
_DIFFERENCES = [0] + [round(8 * math.log2(1 - 2 ** (-d / 8))) for d in range(1, 64)]


@numc.operator(a="lns8", acc="lns8")
def logarithmic(a: Real, b: Real, c: Real) -> Whole:
    """A multiply-add of logarithms: products are sums, and sums are found in tables."""
    zero, nan = (a.code == 0) | (b.code == 0), (a.code == 255) | (b.code == 255) | (c.code == 255)

    def parts(x: Real) -> tuple[Whole, Whole]:
        negative = x.code > _COUNT
        return negative + 0, x.code - 1 - _COUNT * negative + _LOWEST

    (a_sign, a_log), (b_sign, b_log), (c_sign, c_log) = map(parts, (a, b, c))
    sign, log = a_sign ^ b_sign, a_log + b_log
    apart = minimum(absolute(log - c_log), 63)
    larger = maximum(log, c_log)
    same = sign == c_sign
    total = larger + select(same, lookup(_SUMS, apart), lookup(_DIFFERENCES, apart))
    total_sign = select(log >= c_log, sign, c_sign)
    total, total_sign = select(c.code == 0, log, total), select(c.code == 0, sign, total_sign)
    gone = (total < _LOWEST) | ((log == c_log) & (sign != c_sign) & (c.code != 0))
    place = minimum(maximum(total, _LOWEST), _LOWEST + _COUNT - 1) - _LOWEST
    code = select(gone, 0, 1 + place + _COUNT * total_sign)
    return select(nan, 255, select(zero, c.code, code))
