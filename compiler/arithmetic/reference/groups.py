"""Conversions to grouped formats, defined: one group at a time, in integers and fractions (arithmetic.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from numc.compiler.arithmetic.grammar import parse_group_conversion
from numc.compiler.arithmetic.groups import SCALE_BIAS, Bfp, GroupConversion, Int, Mx
from numc.compiler.arithmetic.operators import FP32
from numc.compiler.arithmetic.reference.random import conversion_draws, stream
from numc.compiler.arithmetic.reference.rounding import round_real, rounder, to_multiple, to_noisy_multiple
from numc.compiler.arithmetic.reference.value import POINT, Value, bits_of, from_bits, to_array

Noisy = tuple[Value, int]  # with what it draws


def round_groups(
    x: npt.ArrayLike, to: GroupConversion | str, axis: int = -1, *, stream: int = stream(0, 0)
) -> npt.NDArray[np.float32]:
    """Return float32 `x` converted to a grouped format, whose groups run along `axis`.

    stream: what a stochastic rounding draws from; each element by its index in C order, whatever the axis.
    Raises NumcError for a text that is no such conversion, TypeError for an `x` that float32 does not hold.
    """
    to = (parse_group_conversion(to) if isinstance(to, str) else to).of_tensors()
    bits = bits_of(x)
    draws = np.array(conversion_draws(stream, bits.size, to.noise), np.uint32).reshape(bits.shape)
    if isinstance(to.format, Int):
        return to_array(_int(_values(bits), draws.ravel().tolist(), to), bits.shape)
    moved, moved_draws = np.moveaxis(bits, axis, -1), np.moveaxis(draws, axis, -1)
    rows = [
        list(zip(_values(moved[index]), moved_draws[index].tolist(), strict=True))
        for index in np.ndindex(moved.shape[:-1])
    ]
    every = (_exponent([value for value, _ in group]) for row in rows for group in _groups(row, to.format.group))
    top = max((e for e in every if e is not None), default=0)
    result = to_array((value for row in rows for value in _converted(row, to, top)), moved.shape)
    return np.ascontiguousarray(np.moveaxis(result, -1, axis))


def largest_magnitude(values: Sequence[Value], *, finite: bool) -> Value:
    """The largest magnitude, 0 for none; NaN if there is an infinity or a NaN, unless only `finite` ones count."""
    if not finite and not _is_finite(values):
        return math.nan
    return max(map(_magnitude, values), default=0)


def convert_row(row: Sequence[Noisy], to: GroupConversion, largest: Value) -> list[Value]:
    """Convert one row, cut into groups of bfp or mx; `largest` is the largest finite magnitude of its tensor."""
    return _converted(row, to, _exponent([largest]) or 0)


def scale_of(largest: Value, fmt: Int) -> Value:
    """The scale of a tensor, by its largest magnitude: 0 where that is 0, NaN where it is."""
    if type(largest) is not int:
        return math.nan
    if not largest:
        return 0
    exact = Fraction(largest, fmt.largest << POINT)
    return max(int(Fraction(round_real(exact, FP32)) * (1 << POINT)), 1)


def integer(value: Value, to: GroupConversion, scale: Value, noise: int = 0) -> int:
    """The integer of intN for a value in a tensor of this scale; 0 where the scale is 0 or NaN, or the value is NaN.

    A scale that is not that of the tensor can leave values beyond the largest integer; they become that.
    """
    assert isinstance(to.format, Int)
    if type(scale) is not int or not scale or value != value:
        return 0
    if type(value) is float and math.isinf(value):
        return -to.format.largest if value < 0 else to.format.largest
    quotient = Fraction(round_real(Fraction(_magnitude(value), scale), FP32))
    q = min(_to_integer(quotient, to, _negative(value), noise), to.format.largest)
    return -q if _negative(value) else q


def _converted(row: Sequence[Noisy], to: GroupConversion, top: int) -> list[Value]:
    """One row, cut into groups; `top` is the largest exponent of a tensor of bfp."""
    fmt = to.format
    assert not isinstance(fmt, Int)
    groups = _groups(row, fmt.group)
    if isinstance(fmt, Mx):
        return [value for group in groups for value in _mx(group, fmt, to)]
    return [value for group in groups for value in _bfp(group, fmt, to, top)]


def _groups(row: Sequence[Noisy], size: int) -> list[Sequence[Noisy]]:
    return [row[start : start + size] for start in range(0, len(row), size)]


def _values(bits: npt.NDArray[np.uint32]) -> list[Value]:
    return [from_bits(b) for b in bits.ravel().tolist()]


def _magnitude(value: Value) -> int:
    """Of a finite value, in quanta of 2^-POINT."""
    return abs(value) if type(value) is int else 0


def _negative(value: Value) -> bool:
    return math.copysign(1.0, value) < 0 if type(value) is float else value < 0


def _is_finite(group: Sequence[Value]) -> bool:
    return all(type(value) is int or value == 0 for value in group)


def _exponent(group: Sequence[Value]) -> int | None:
    """floor(log2(max abs)) of a group; None where it is all zeros or has an infinity or a NaN."""
    largest = max(map(_magnitude, group))
    return largest.bit_length() - 1 - POINT if largest and _is_finite(group) else None


def _signed(magnitude: int, negative: bool) -> Value:
    return (-magnitude or -0.0) if negative else magnitude


def _scaled_units(value: Value, shift: int, to: GroupConversion, noise: int) -> int:
    """How many times 2^shift quanta the magnitude of a value rounds to."""
    magnitude = _magnitude(value)
    if shift <= 0:
        return magnitude << -shift
    if to.noise is not None:
        return to_noisy_multiple(magnitude, shift, to.noise.bits, noise) >> shift
    return to_multiple(magnitude, shift, to.rounding, _negative(value)) >> shift


def _times_power(units: int, shift: int) -> int:
    """units * 2^shift; a shift to the right loses nothing, as binary32 has nothing below a quantum to make units of."""
    return units << shift if shift >= 0 else units >> -shift


def _bfp(noisy: Sequence[Noisy], fmt: Bfp, to: GroupConversion, top: int) -> list[Value]:
    group = [value for value, _ in noisy]
    if not _is_finite(group):
        return [math.nan] * len(group)
    exponent = _exponent(group)
    if exponent is None:
        exponent = top  # any: every M is 0
    exponent = max(exponent, top - fmt.window)
    shift = exponent - (fmt.magnitude_bits - 1) + POINT
    units = [min(_scaled_units(value, shift, to, noise), fmt.largest) for value, noise in noisy]
    return [_signed(_times_power(u, shift), _negative(value)) for u, value in zip(units, group, strict=True)]


def _mx(noisy: Sequence[Noisy], fmt: Mx, to: GroupConversion) -> list[Value]:
    group = [value for value, _ in noisy]
    if not _is_finite(group):
        return [math.nan] * len(group)
    exponent = _exponent(group)
    if exponent is None:
        exponent = fmt.emax  # any: every element is 0
    scale = max(exponent - fmt.emax, -SCALE_BIAS)
    return [_mx_element(value, fmt, to, scale, noise) for value, noise in noisy]


def _mx_element(value: Value, fmt: Mx, to: GroupConversion, scale: int, noise: int) -> Value:
    exponent = max(_magnitude(value).bit_length() - 1 - POINT - scale, fmt.emin)
    shift = exponent - fmt.significand_bits + scale + POINT
    magnitude = _times_power(_scaled_units(value, shift, to, noise), shift)
    largest = int(fmt.largest * Fraction(2) ** (scale + POINT))
    has_minus_zero = fmt.exponent_bits > 0
    result = _signed(min(magnitude, largest), _negative(value))
    return result if result or has_minus_zero else 0


def _int(tensor: Sequence[Value], draws: Sequence[int], to: GroupConversion) -> list[Value]:
    """Both quotients and the product are those of binary32, to nearest even."""
    fmt = to.format
    assert isinstance(fmt, Int)
    scale = scale_of(largest_magnitude(tensor, finite=False), fmt)
    if type(scale) is not int:
        return [math.nan] * len(tensor)
    to_f32 = rounder(FP32, POINT)
    results: list[Value] = []
    for value, noise in zip(tensor, draws, strict=True):
        q = integer(value, to, scale, noise)
        product = to_f32(abs(q) * scale)
        magnitude = product if type(product) is int else _LARGEST
        results.append(-magnitude if q < 0 else magnitude)
    return results


_LARGEST = int(FP32.format.max_finite * (1 << POINT))


def _to_integer(x: Fraction, to: GroupConversion, negative: bool, noise: int) -> int:
    """Round x >= 0, the magnitude of a number."""
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
