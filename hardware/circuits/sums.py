"""Sums of exact reals: of two with the bits that a rounding needs, of many in one long fixed-point number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from numc.hardware.circuits.exact_real import Real, high, low, magnitude
from numc.hardware.circuits.reals import decode, encode, multiply
from numc.numerics.circuits import Whole, any_of, below, maximum, minimum, select
from numc.numerics.formats import Conversion, Record
from numc.numerics.operators import FP32


def add(x: Real, y: Real, to: Conversion) -> Real:
    """The sum of two numbers, with as many bits as `to` needs to round it rightly, and one that is set for the rest.

    `x` stays where it is and `y` is shifted, by up to so many bits above `x` that `x` is below every rounding, and so
    many below that `y` is; this is how a fused multiply-add takes its product and its accumulator.
    """
    below_quantum = max(to.how.random_bits, 1) + 1
    above, under = x.bits + _reach(y, to) + below_quantum, _reach(x, to) + below_quantum
    far = above + under + y.bits + 1
    distance = y.exponent - x.exponent
    distance = select(x.is_zero, above + 1, select(y.is_zero, -far, distance))
    is_far = distance > above
    down = minimum(maximum(above - distance, 0), far)
    wide = y.significand << above + under
    shifted = wide >> down | any_of(below(wide, down))
    kept = select(is_far, any_of(x.significand), x.significand << under)
    differ = x.sign ^ y.sign
    total = kept + select(differ, -shifted, shifted)
    sign = select(total == 0, x.sign & y.sign, x.sign ^ (total < 0))
    exponent = select(is_far, y.exponent - above, x.exponent) - under
    exponent = _within(exponent, min(low(x.exponent), low(y.exponent) - above) - under)
    nan, infinite, sign = _specials([x, y], sign)
    return Real(sign, exponent, magnitude(total), nan=nan, infinite=infinite, least=((1, low(exponent)),))


def _within(x: Whole, least: int) -> Whole:
    return maximum(x, least)


def _reach(x: Real, to: Conversion) -> int:
    """The places that a sum can have below the last bit of a number, if the number is the larger one of both."""
    fmt = to.format
    assert isinstance(fmt, Record)
    unit, precision = fmt.unit_exponent, fmt.precision
    if fmt.parts > 1:
        unit, precision = FP32.format.unit_exponent, FP32.format.precision
    least = low(x.exponent)
    reaches = [precision + 1 - max(bits, 1) for bits, _ in x.least if bits != 1]
    reaches += [min(precision, max(least - unit, 0)) for bits, _ in x.least if bits == 1]
    return max([0, *reaches])


def _specials(terms: Sequence[Real], sign: Whole) -> tuple[Whole, Whole, Whole]:
    """NaN, infinity and sign of a sum: infinities of both signs are NaN."""
    positive = reduce(lambda a, b: a | b, [term.infinite & (term.sign ^ 1) for term in terms])
    negative = reduce(lambda a, b: a | b, [term.infinite & term.sign for term in terms])
    nan = reduce(lambda a, b: a | b, [term.nan for term in terms]) | (positive & negative)
    infinite = (positive | negative) & (nan ^ 1)
    return nan, infinite, select(infinite, negative, sign)


def exact_sum(terms: Sequence[Real], *, signed_zero: bool = True) -> Real:
    """The sum of all terms in fixed point, of all the bits that they can have."""
    least = min(low(term.exponent) for term in terms)
    total: Whole = 0
    for term in terms:
        size = term.significand << term.exponent - least
        total = total + select(term.sign, -size, size)
    return of_integer(total, least, terms, signed_zero=signed_zero)


def of_integer(total: Whole, exponent: Whole, terms: Sequence[Real], *, signed_zero: bool = False) -> Real:
    """The number total * 2^exponent, or what the specials among the terms of a sum make of it."""
    negative: Whole = total < 0
    sign = negative
    if signed_zero:
        sign = select(total == 0, reduce(lambda a, b: a & b, [term.sign for term in terms]), negative)
    nan, infinite, sign = _specials(terms, sign)
    return Real(sign, exponent, magnitude(total), nan=nan, infinite=infinite, least=((1, low(exponent)),))


def fused_multiply_add(x: Real, y: Real, z: Real) -> Real:
    """The binary32 FMA, to nearest even."""
    return to_binary32(add(multiply(x, y), z, FP32))


def to_binary32(x: Real) -> Real:
    """A number rounded to binary32, to nearest even."""
    return decode(FP32.format, encode(x, FP32))


def shift_down(x: Whole, amount: Whole) -> Whole:
    """`x` shifted right by an amount that may exceed its bits, rounded down."""
    bits = max(high(x).bit_length(), (-low(x)).bit_length()) + 1
    return x >> minimum(maximum(amount, 0), bits)
