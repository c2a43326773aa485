"""Roundings to integers, and exponents, on arrays: what the kinds of groups and codes are computed with in numpy.

Everything is binary64, where it is exact: scaling a binary32 number by a power of two, and its multiples of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from numc.numerics.roundings import Noise

F32Array = npt.NDArray[np.float32]
F64Array = npt.NDArray[np.float64]
ToInteger = Callable[[F64Array], F64Array]


def exponents(x: F64Array) -> npt.NDArray[np.int64]:
    """floor(log2) of positive binary64 numbers that are binary32 numbers, subnormal ones too; -1023 for zero."""
    return (x.view(np.int64) >> 52 & 0x7FF) - 1023


def power(exponent: npt.NDArray[np.int64]) -> F64Array:
    """Two to the exponents, -1022 to 1023."""
    found: F64Array = (exponent + 1023 << 52).view(np.float64)
    return found


@np.errstate(all="ignore")  # a signalling NaN is no reason to warn
def largest_magnitudes(groups: F32Array) -> F64Array:
    """The largest magnitude of each group along the last axis; an infinity or a NaN where it has one."""
    magnitudes = groups.view(np.uint32) & np.uint32(0x7FFFFFFF)
    largest: F64Array = magnitudes.max(axis=-1).view(np.float32).astype(np.float64)
    return largest


def scaled_down(values: F32Array, exponent: npt.NDArray[np.int64], is_nan: npt.NDArray[np.bool_]) -> F64Array:
    """Return groups (n, size) divided by ``2 ** exponent`` (n), zeros where the group `is_nan`."""
    scaled = values.astype(np.float64)
    if is_nan.any():
        scaled[is_nan] = 0.0
    scaled *= power(-np.where(is_nan, 0, exponent))[:, None]
    return scaled


def scales(exponent: npt.NDArray[np.int64], is_nan: npt.NDArray[np.bool_]) -> F64Array:
    """Return ``2 ** exponent`` as scales (n, 1), NaN where the group `is_nan`."""
    return np.where(is_nan, np.nan, power(np.where(is_nan, 0, exponent)))[:, None]


def rounded(x: F64Array, to_integer: ToInteger, largest: float) -> F64Array:
    """Round to integers, keep the signs of zeros, saturate."""
    found: F64Array = np.clip(to_integer(x), -largest, largest)
    return found


def to_integer(rounding: str) -> ToInteger:
    """The rounding to integers that a format names, of those that draw nothing."""
    return _TO_INTEGER[rounding]


def to_noisy_integer(noise: Noise, drawn: npt.NDArray[np.uint32]) -> ToInteger:
    """The stochastic rounding to integers: cut the magnitude to the random bits, add what is `drawn`, truncate."""
    scale = 2.0**noise.bits

    def noisy(x: F64Array) -> F64Array:
        size = np.abs(x)
        whole = np.floor(size)  # the sum with noise may need more bits than binary64 has
        carry = np.floor((size - whole) * scale) + drawn >= scale
        signed: F64Array = np.copysign(whole + carry, x)
        return signed

    return noisy


def _to_odd(whole: F64Array, x: F64Array) -> F64Array:
    return np.where((whole != x) & (np.fmod(whole, 2.0) == 0.0), whole + np.copysign(1.0, x), whole)


_TO_INTEGER: Mapping[str, ToInteger] = {
    "rne": np.rint,
    "rtz": np.trunc,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rup": np.ceil,
    "rdn": np.floor,
    "odd": lambda x: _to_odd(np.trunc(x), x),
}
