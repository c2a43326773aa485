"""The rounding of an exact number to a format of single values (arithmetic.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Protocol

from numc.numerics.exact.value import POINT, PRODUCT_POINT, Value, to_float
from numc.numerics.formats import Conversion


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
    finite = _compound_rounder(to, point) if to.format.parts > 1 else _simple_rounder(to, point)

    def round_value(x: Value, noise: int = 0) -> Value:
        if type(x) is int:
            return finite(x, noise) if x else 0
        if math.isinf(x) and to.format.finite:  # there is no infinity: it overflows like a large number
            return finite(1 << 2 * point if x > 0 else -1 << 2 * point, noise)
        return x  # -0.0, nan, inf

    return round_value


def _simple_rounder(to: Conversion, point: int) -> Callable[[int, int], Value]:
    fmt, rounding = to.format, to.rounding
    random_bits = to.noise.bits if to.noise else 0
    normal = fmt.emin + point
    significand_bits, flush = fmt.significand_bits, not fmt.subnormals
    largest = int(fmt.max_finite * (1 << point))
    drop = point - POINT

    def finite(x: int, noise: int) -> Value:
        magnitude = -x if x < 0 else x
        exponent = magnitude.bit_length() - 1
        if exponent < normal:
            if flush:
                return -0.0 if x < 0 else 0
            exponent = normal
        # The neighbours of x are multiples of 2^shift. The exponent is not bounded above: overflow is seen afterwards.
        shift = exponent - significand_bits
        if shift > 0 and random_bits:
            magnitude = to_noisy_multiple(magnitude, shift, random_bits, noise)
        elif shift > 0:
            magnitude = to_multiple(magnitude, shift, rounding, x < 0)
        if magnitude > largest:
            return _overflow(to, x < 0)
        magnitude >>= drop
        return magnitude if x >= 0 else -magnitude or -0.0

    return finite


def to_multiple(magnitude: int, shift: int, rounding: str, negative: bool) -> int:
    """Return the multiple of ``2 ** shift`` (shift > 0) that a rounding chooses for ``-magnitude`` or ``magnitude``."""
    units = magnitude >> shift
    rest = magnitude - (units << shift)
    half = 1 << (shift - 1)
    if rounding == "rne":  # a tie goes to the even number of units, also where the precision is one bit
        up = rest > half or (rest == half and bool(units & 1))
    elif rounding == "rna":
        up = rest >= half
    elif rounding == "odd":  # inexact: the neighbour with an odd number of units
        up = rest > 0 and not units & 1
    elif rounding == "rtz":
        up = False
    else:  # rup, rdn
        up = rest > 0 and negative == (rounding == "rdn")
    return units + up << shift


def to_noisy_multiple(magnitude: int, shift: int, random_bits: int, noise: int) -> int:
    """Return ``magnitude`` plus ``noise * 2^(shift - random_bits)``, truncated to a multiple of ``2 ** shift``.

    noise: uniform in [0, 2^random_bits). A multiple stays what it is, and what lies below the noise never matters.
    """
    return ((magnitude << random_bits >> shift) + noise) >> random_bits << shift


def _overflow(to: Conversion, negative: bool) -> Value:
    """The result beyond the largest finite value: as IEEE-754 section 7.4 says, or saturated, or NaN by request."""
    if to.format.finite:
        to_infinity = False
        if to.overflow == "nan":
            return math.nan
    else:
        to_infinity = (
            to.rounding in ("rne", "rna") or to.noise is not None or to.rounding == ("rdn" if negative else "rup")
        )
    largest = math.inf if to_infinity else int(to.format.max_finite * (1 << POINT))
    return -largest if negative else largest


def _compound_rounder(to: Conversion, point: int) -> Callable[[int, int], Value]:
    drop, random_bits = point - POINT, to.noise.bits if to.noise else 0

    def finite(x: int, noise: int) -> Value:
        parts = _split(x, to.format.parts, point, random_bits, noise)
        if parts is None:
            return -math.inf if x < 0 else math.inf
        return sum(parts) >> drop or (-0.0 if x < 0 else 0)

    return finite


def parts_of(value: Value, count: int) -> tuple[Value, ...]:
    """Return the bf16 parts of a value of bf16xN: x0 = BF(x), x1 = BF(x - x0), x2 = BF(x - x0 - x1).

    Where x0 is not finite every part is x0 (the thesis: never leave NaN where there was an infinity).
    """
    if type(value) is int:
        parts = _split(value, count, POINT)
        return parts if parts is not None else (-math.inf if value < 0 else math.inf,) * count
    return (value, *([0] * (count - 1))) if value == 0 else (value,) * count


def _split(x: int, count: int, point: int, random_bits: int = 0, noise: int = 0) -> tuple[int, ...] | None:
    """The parts of ``x * 2^-point``, in the same unit, or None where the first one overflows.

    Each part rounds what is left to 8 bits, but not below the smallest bf16 (2^-133), nor below the ulp of the binary32
    number that will carry the value (which a binary32 x never has anything below). With random bits, the last part is
    rounded stochastically.
    """
    exponent = abs(x).bit_length() - 1
    lowest = max(max(exponent, point - 126) - 23, point - 133)
    largest = 0xFF << (127 - 7 + point)
    parts: list[int] = []
    for n in range(count):
        magnitude = abs(x)
        shift = max(magnitude.bit_length() - 8, lowest)
        if shift <= 0:
            part = magnitude
        elif random_bits and n == count - 1:
            part = to_noisy_multiple(magnitude, shift, random_bits, noise)
        else:
            part = to_multiple(magnitude, shift, "rne", x < 0)
        if part > largest:
            return None
        parts.append(part if x >= 0 else -part)
        x -= parts[-1]
    return tuple(parts)
