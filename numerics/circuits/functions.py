"""Functions of numbers of a circuit which Python has no operator for; of ``int`` they give ``int``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, overload

from numc.numerics.circuits.known import Known
from numc.numerics.circuits.number import Number, Whole, here, leading_zero_count, make, number
from numc.numerics.circuits.real import Real, checked
from numc.numerics.circuits.traced import Traced
from numc.numerics.formats import Conversion
from numc.numerics.formats.format import power
from numc.support.errors import NumcError


@overload
def select(condition: Whole, x: Whole, y: Whole) -> Whole: ...
@overload
def select(condition: Whole, x: Real, y: Real | float) -> Real: ...
@overload
def select(condition: Whole, x: float, y: Real) -> Real: ...
def select(condition: Whole, x: Any, y: Any) -> Any:
    """Return `x` where the condition is not zero, else `y`: whole numbers, or real ones; a circuit computes both."""
    if not isinstance(condition, Number):
        return x if condition else y
    real = isinstance(x, Real | float) or isinstance(y, Real | float)
    return _chosen(condition, x, y) if real else make("select", condition, x, y)


def _chosen(condition: Number, x: Real | float, y: Real | float) -> Traced:
    a, b = (each if isinstance(each, Traced) else Traced("constant", data=each) for each in (x, y))
    return Traced("chosen", (condition, a, b), a.to if a.to == b.to else None)


def rounded(x: Real | float, to: str) -> Real:
    """Return a real number rounded to a format, as ``bf16``, ``e4m3fn:rtz`` or ``fp32``.

    Raises NumcError for a text that is no such format: of one part and fixed widths, without random bits.
    """
    from numc.numerics.grammar import parse_conversion

    if isinstance(x, float):
        x = Known(x, None)
    if not isinstance(x, Real):
        raise NumcError(f"{here()}: rounded of {type(x).__name__}, want a real number: scaled(n, 0) is that of n")
    return x.rounded(checked(parse_conversion(to), "rounded to"))


def scaled(n: Whole, exponent: Whole) -> Real:
    """Return the exact number ``n * 2^exponent``; +0 of zero."""
    if not isinstance(n, Number) and not isinstance(exponent, Number):
        return Known(n * power(exponent), None)
    return Traced("scaled", (number(n), number(exponent)))


def decoded(code: Whole, to: str) -> Real:
    """Return the number that an encoding stands for in a format.

    Raises NumcError for a code that does not fit, and for texts as `rounded` does.
    """
    from numc.numerics.grammar import parse_conversion

    return value_of(code, checked(parse_conversion(to), "decoded from"))


def value_of(code: Whole, to: Conversion) -> Real:
    """Return the number that an encoding stands for in a format. Raises NumcError for a code that does not fit."""
    low, high = (code.low, code.high) if isinstance(code, Number) else (code, code)
    if low < 0 or high >= 1 << to.format.bits:
        raise NumcError(
            f"{here()}: {low} to {high} as a code of '{to.format.name}', want 0 to {(1 << to.format.bits) - 1}"
        )
    return Traced("decoded", (code,), to) if isinstance(code, Number) else Known(to.format.decode(code), to)


def minimum(x: Whole, *others: Whole) -> Whole:
    """Return the smallest number."""
    return reduce(lambda a, b: make("min", a, b) if _traced(a, b) else min(a, b), others, x)


def maximum(x: Whole, *others: Whole) -> Whole:
    """Return the greatest number."""
    return reduce(lambda a, b: make("max", a, b) if _traced(a, b) else max(a, b), others, x)


def absolute(x: Whole) -> Whole:
    """Return the magnitude."""
    return within(maximum(x, -x), 0, max(-x.low, x.high)) if isinstance(x, Number) else abs(x)


def leading_zeros(x: Whole, width: int) -> Whole:
    """Return how many zeros stand above the highest one of `x` in `width` bits; `width` of zero.

    Raises NumcError for a number that can be negative or does not fit.
    """
    low, high = (x.low, x.high) if isinstance(x, Number) else (x, x)
    if low < 0 or high.bit_length() > width:
        raise NumcError(
            f"{here()}: leading_zeros of {low} to {high} in {width} bits, want a number of 0 to 2^{width} - 1"
        )
    return make("lzc", x, width) if isinstance(x, Number) else leading_zero_count(x, width)


def lookup(values: Sequence[int], index: Whole) -> Whole:
    """Return ``values[index]`` of a table of whole numbers. Raises NumcError for an index outside of it."""
    low, high = (index.low, index.high) if isinstance(index, Number) else (index, index)
    if low < 0 or high >= len(values):
        raise NumcError(
            f"{here()}: an index of {low} to {high} into a table of {len(values)} values, want 0 to {len(values) - 1}"
        )
    if not isinstance(index, Number):
        return values[index]
    reached = values[low : high + 1]
    return make("lookup", index, data=tuple(map(int, values)), to=(min(reached), max(reached)))


def within(x: Whole, low: int, high: int) -> Whole:
    """Return `x`, which is from `low` to `high` as its author knows better than the ranges of its operands tell.

    Raises NumcError where the reference finds that it is not.
    """
    if isinstance(x, Number):
        if x.high < low or x.low > high:
            raise NumcError(f"{here()}: within({low}, {high}) of a number from {x.low} to {x.high}")
        least, most = max(low, x.low), min(high, x.high)
        return x if (least, most) == (x.low, x.high) else make("within", x, to=(least, most))
    if not low <= x <= high:
        raise NumcError(f"{here()}: within({low}, {high}) is {x}: the bounds are not those of the number")
    return x


def wrapped(x: Whole, bits: int) -> Whole:
    """Return the number of `bits` bits, with its sign, that `x` is modulo ``2^bits``."""
    half = 1 << bits - 1
    return ((x + half) & (2 * half - 1)) - half


def saturated(x: Whole, bits: int) -> Whole:
    """Return the number of `bits` bits, with its sign, that is nearest to `x`."""
    return minimum(maximum(x, -(1 << bits - 1)), (1 << bits - 1) - 1)


def below(x: Whole, bits: Whole) -> Whole:
    """Return the lowest `bits` bits of `x`, a number from 0 up."""
    return x & ((1 << bits) - 1)


def field(x: Whole, first: int, bits: int) -> Whole:
    """Return `bits` bits of `x` from bit `first` up, as a number from 0 up."""
    return (x >> first) & ((1 << bits) - 1)


def join(*parts: tuple[Whole, int]) -> Whole:
    """Return numbers from 0 up, each with its width in bits, side by side; the first one is the highest."""
    joined: Whole = 0
    for x, bits in parts:
        low, high = (x.low, x.high) if isinstance(x, Number) else (x, x)
        if low < 0 or high >= 1 << bits:
            raise NumcError(f"{here()}: {low} to {high} in {bits} bits of join, want 0 to {(1 << bits) - 1}")
        joined = joined << bits | x
    return joined


def any_of(x: Whole) -> Whole:
    """Return 1 if the number is not zero, else 0, as a sticky bit is made."""
    return x != 0 if isinstance(x, Number) else int(x != 0)


def _traced(*numbers: Whole) -> bool:
    return any(isinstance(each, Number) for each in numbers)
