"""Roundings to integers, and exponents, on arrays: what the kinds of groups and codes are computed with in numpy.

Everything is binary64, where it is exact: scaling a binary32 number by a power of two, and its multiples of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from numc.numerics.float_arrays import F32Array, F64Array, exponents, power
from numc.numerics.formats import Conversion, Format, Noise
from numc.numerics.formats.format import listed
from numc.numerics.formats.steps import steps


@dataclass(frozen=True)
class ToInteger:
    """A rounding to integers; noise, drawn: what a stochastic one adds to them, for each element."""

    rounding: str
    noise: Noise | None = None
    drawn: npt.NDArray[np.uint32] | None = None

    def __call__(self, x: F64Array) -> F64Array:
        """Round; a stochastic rounding cuts the magnitude to the random bits, adds what is drawn, and truncates."""
        if self.noise is None:
            return _TO_INTEGER[self.rounding](x)
        assert self.drawn is not None
        size, scale = np.abs(x), 2.0**self.noise.bits
        whole = np.floor(size)  # the sum with noise may need more bits than binary64 has
        carry = np.floor((size - whole) * scale) + self.drawn >= scale
        signed: F64Array = np.copysign(whole + carry, x)
        return signed

    def to_format(self, x: F32Array, fmt: Format) -> F64Array:
        """Round to a format of few values, which saturates; no value is NaN."""
        if self.noise is None:
            bits = x.view(np.int32)
            keys, values = _steps(saturating(fmt, self.rounding))
            keys_of_x = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
            stepped: F64Array = values[np.searchsorted(keys, keys_of_x, side="right") - 1]
            return stepped
        assert self.drawn is not None
        wide, scale = x.astype(np.float64), 2.0**self.noise.bits
        values = np.array([float(value) for value, _ in listed(fmt)])
        lower = np.clip(np.searchsorted(values, wide, side="right") - 1, 0, len(values) - 2)
        below, above = values[lower], values[lower + 1]
        missing = (scale - self.drawn) * (above - below)
        up, down = wide * scale >= below * scale + missing, wide * scale <= above * scale - missing
        rounded = np.where(np.where(wide < 0, ~down, up), above, below)
        rounded = np.clip(np.where(wide >= values[-1], values[-1], rounded), values[0], values[-1])
        return np.where((rounded == 0) & fmt.has_minus_zero, np.copysign(rounded, wide), rounded)


def to_record(x: F64Array, fmt: Format) -> F64Array:
    """Round positive numbers to a binary record to nearest even, the largest value at most."""
    if not fmt.has_zero:  # powers of two
        keys, values = _steps(saturating(fmt, "rne"))
        powers: F64Array = values[np.searchsorted(keys, x.astype(np.float32).view(np.int32), side="right") - 1]
        return powers
    step = power(np.maximum(exponents(x), fmt.emin) - (fmt.precision - 1))
    return np.minimum(np.rint(x / step) * step, float(fmt.max_finite))


def to_nearest(x: F32Array, fmt: Format) -> F32Array:
    """Round to a record that IEEE-754 defines, with subnormals, to nearest even."""
    finite = np.isfinite(x)
    magnitude = np.abs(np.where(finite, x, np.float32(0))).astype(np.float64)
    step = power(np.maximum(exponents(magnitude), fmt.emin) - (fmt.precision - 1))
    nearest = np.rint(magnitude / step) * step
    in_range = np.where(nearest > float(fmt.max_finite), np.inf, nearest)
    return np.where(finite, np.copysign(in_range, x), x).astype(np.float32)


def saturating(fmt: Format, rounding: str) -> Conversion:
    """Return the conversion to a format in which nothing is beyond the largest value."""
    return Conversion(fmt, rounding, "sat" if fmt.has_infinities else "")


@cache
def _steps(to: Conversion) -> tuple[npt.NDArray[np.int64], F64Array]:
    keys, values = zip(*steps(to), strict=True)
    return np.array(keys, np.int64), np.array(values)


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
    clipped: F64Array = np.clip(to_integer(x), -largest, largest)
    return clipped


def _to_odd(whole: F64Array, x: F64Array) -> F64Array:
    return np.where((whole != x) & (np.fmod(whole, 2.0) == 0.0), whole + np.copysign(1.0, x), whole)


_TO_INTEGER: Mapping[str, Callable[[F64Array], F64Array]] = {
    "rne": np.rint,
    "rtz": np.trunc,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rup": np.ceil,
    "rdn": np.floor,
    "odd": lambda x: _to_odd(np.trunc(x), x),
}
