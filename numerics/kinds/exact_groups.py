"""The common part of the exact definitions of the kinds of groups: magnitudes, exponents and units of a group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from numc.numerics.exact.multiples import to_multiple, to_noisy_multiple
from numc.numerics.exact.value import POINT, Value
from numc.numerics.groups import GroupConversion


def magnitude(value: Value) -> int:
    """The magnitude of a finite value in quanta of 2^-POINT; 0 for an infinity and NaN."""
    return abs(value) if type(value) is int else 0


def is_negative(value: Value) -> bool:
    """Whether the sign bit of a value is set."""
    return math.copysign(1.0, value) < 0 if type(value) is float else value < 0


def is_finite(group: Sequence[Value]) -> bool:
    """Whether no value is an infinity or a NaN."""
    return all(type(value) is int or value == 0 for value in group)


def exponent(group: Sequence[Value]) -> int | None:
    """floor(log2) of the largest magnitude of a group; None where all are zeros or one is not finite."""
    largest = max(map(magnitude, group))
    return largest.bit_length() - 1 - POINT if largest and is_finite(group) else None


def signed(size: int, negative: bool) -> Value:
    """The value of this magnitude, in quanta; a zero keeps its sign."""
    return (-size or -0.0) if negative else size


def units(value: Value, shift: int, to: GroupConversion, noise: int) -> int:
    """The number of quanta of 2^shift to which the magnitude of a value rounds."""
    size = magnitude(value)
    if shift <= 0:
        return size << -shift
    if to.noise is not None:
        return to_noisy_multiple(size, shift, to.noise.bits, noise) >> shift
    return to_multiple(size, shift, to.rounding, is_negative(value)) >> shift


def times_power(count: int, shift: int) -> int:
    """count * 2^shift; a shift to the right loses nothing, as binary32 has nothing below a quantum to make units of."""
    return count << shift if shift >= 0 else count >> -shift


def to_integer(x: Fraction, to: GroupConversion, negative: bool, noise: int) -> int:
    """Round x >= 0, the magnitude of a number, to an integer."""
    floor, rounding = math.floor(x), to.rounding
    if to.noise is not None:
        return math.floor(x * (1 << to.noise.bits)) + noise >> to.noise.bits
    if rounding == "rne":
        return round(x)
    if rounding == "rna":
        return math.floor(x + Fraction(1, 2))
    if rounding == "odd":
        return floor + (x != floor and floor % 2 == 0)
    if rounding == "rtz":
        return floor
    return math.ceil(x) if negative == (rounding == "rdn") else floor
