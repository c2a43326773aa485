"""The rounding of an exact number to a format of single values (arithmetic.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Protocol

from numc.numerics.exact.multiples import to_multiple, to_noisy_multiple
from numc.numerics.exact.value import POINT, PRODUCT_POINT, Value, to_float
from numc.numerics.formats import Conversion, Format


def round_real(x: Fraction | int | float, to: Conversion, noise: int = 0) -> float:
    """Return any real number rounded once to a format; `noise`: what a stochastic rounding adds."""
    if isinstance(x, float) and (x == 0 or not math.isfinite(x)):
        return to_float(rounder(to, POINT)(x, noise))
    # Everything that decides a rounding is a multiple of 2^-173 (2^-150 without noise); one more bit says whether
    # anything lies below.
    scaled = Fraction(x) * (1 << PRODUCT_POINT)
    floor = scaled.numerator // scaled.denominator
    return to_float(rounder(to, PRODUCT_POINT + 1)(2 * floor + (floor != scaled), noise))


class Rounder(Protocol):
    """Rounds ``x * 2^-point`` (or one of the floats of `value.py`) to a format; `noise`: what it draws, if it does."""

    def __call__(self, x: Value, noise: int = 0) -> Value: ...


@cache
def rounder(to: Conversion, point: int) -> Rounder:
    """Return the function that rounds ``x * 2^-point`` to a format."""
    fmt = to.format
    how = to.how
    finite = _compound_rounder(to, point) if fmt.parts > 1 else fmt.rounding(how, point)

    def round_value(x: Value, noise: int = 0) -> Value:
        return finite(x, noise) if type(x) is int and x else fmt.special(x, how, noise)  # zeros, infinities, NaN

    return round_value


def _compound_rounder(to: Conversion, point: int) -> Callable[[int, int], Value]:
    drop, random_bits = point - POINT, to.noise.bits if to.noise else 0

    def finite(x: int, noise: int) -> Value:
        parts = _split(x, to.format, point, random_bits, noise)
        if parts is None:
            return -math.inf if x < 0 else math.inf
        return sum(parts) >> drop or (-0.0 if x < 0 else 0)

    return finite


def parts_of(value: Value, fmt: Format) -> tuple[Value, ...]:
    """Return the parts of a value of a format: x0 = F(x), x1 = F(x - x0), x2 = F(x - x0 - x1), F rounds to `fmt.part`.

    Where x0 is not finite every part is x0 (the thesis: never leave NaN where there was an infinity).
    """
    count = fmt.parts
    if count == 1:
        return (value,)
    if type(value) is int:
        parts = _split(value, fmt, POINT)
        return parts if parts is not None else (-math.inf if value < 0 else math.inf,) * count
    return (value, *([0] * (count - 1))) if value == 0 else (value,) * count


def _split(x: int, fmt: Format, point: int, random_bits: int = 0, noise: int = 0) -> tuple[int, ...] | None:
    """The parts of ``x * 2^-point``, in the same unit, or None where the first one overflows.

    Each part rounds what is left to its precision, but not below its smallest number, nor below the ulp of the binary32
    number that will carry the value (which a binary32 x never has anything below). With random bits, the last part is
    rounded stochastically.
    """
    exponent = abs(x).bit_length() - 1
    lowest = max(max(exponent, point - 126) - 23, point + fmt.part.unit_exponent)
    largest = int(fmt.part.max_finite * (1 << point))
    parts: list[int] = []
    for n in range(fmt.parts):
        magnitude = abs(x)
        shift = max(magnitude.bit_length() - fmt.precision, lowest)
        if shift <= 0:
            part = magnitude
        elif random_bits and n == fmt.parts - 1:
            part = to_noisy_multiple(magnitude, shift, random_bits, noise)
        else:
            part = to_multiple(magnitude, shift, "rne", x < 0)
        if part > largest:
            return None
        parts.append(part if x >= 0 else -part)
        x -= parts[-1]
    return tuple(parts)
