"""Functions of numbers of a circuit which Python has no operator for; of ``int`` they give ``int``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from numc.numerics.circuits.number import Int, Number, here, leading_zero_count, make
from numc.support.errors import NumcError


def select(condition: Int, x: Int, y: Int) -> Int:
    """Return `x` where the condition is not zero, else `y`; a circuit computes both."""
    if any(isinstance(each, Number) for each in (condition, x, y)):
        return make("select", condition, x, y)
    return x if condition else y


def minimum(x: Int, *others: Int) -> Int:
    """Return the smallest number."""
    return reduce(lambda a, b: make("min", a, b) if _traced(a, b) else min(a, b), others, x)


def maximum(x: Int, *others: Int) -> Int:
    """Return the greatest number."""
    return reduce(lambda a, b: make("max", a, b) if _traced(a, b) else max(a, b), others, x)


def absolute(x: Int) -> Int:
    """Return the magnitude."""
    return maximum(x, -x) if isinstance(x, Number) else abs(x)


def leading_zeros(x: Int, width: int) -> Int:
    """Return how many zeros stand above the highest one of `x` in `width` bits; `width` of zero.

    Raises NumcError for a number that can be negative or does not fit.
    """
    low, high = (x.low, x.high) if isinstance(x, Number) else (x, x)
    if low < 0 or high.bit_length() > width:
        raise NumcError(
            f"{here()}: leading_zeros of {low} to {high} in {width} bits, want a number of 0 to 2^{width} - 1"
        )
    return make("lzc", x, width) if isinstance(x, Number) else leading_zero_count(x, width)


def lookup(values: Sequence[int], index: Int) -> Int:
    """Return ``values[index]`` of a table of whole numbers. Raises NumcError for an index outside of it."""
    low, high = (index.low, index.high) if isinstance(index, Number) else (index, index)
    if low < 0 or high >= len(values):
        raise NumcError(f"{here()}: an index of {low} to {high} into a table of {len(values)} values")
    if not isinstance(index, Number):
        return values[index]
    reached = values[low : high + 1]
    return make("lookup", index, data=tuple(map(int, values)), to=(min(reached), max(reached)))


def within(x: Int, low: int, high: int) -> Int:
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


def below(x: Int, bits: Int) -> Int:
    """Return the lowest `bits` bits of `x`, a number from 0 up."""
    return x & ((1 << bits) - 1)


def field(x: Int, first: int, bits: int) -> Int:
    """Return `bits` bits of `x` from bit `first` up, as a number from 0 up."""
    return (x >> first) & ((1 << bits) - 1)


def join(*parts: tuple[Int, int]) -> Int:
    """Return numbers from 0 up, each with its width in bits, side by side; the first one is the highest."""
    joined: Int = 0
    for x, bits in parts:
        low, high = (x.low, x.high) if isinstance(x, Number) else (x, x)
        if low < 0 or high >= 1 << bits:
            raise NumcError(f"{here()}: {low} to {high} in {bits} bits of join, want 0 to {(1 << bits) - 1}")
        joined = joined << bits | x
    return joined


def any_of(x: Int) -> Int:
    """Return 1 if the number is not zero, else 0, as a sticky bit is made."""
    return x != 0 if isinstance(x, Number) else int(x != 0)


def _traced(*numbers: Int) -> bool:
    return any(isinstance(each, Number) for each in numbers)
