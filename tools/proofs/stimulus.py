"""Operands and accumulators that a unit is tried with: near one another, far apart, cancelling, and specials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import numc
from numc.numerics.float_arrays import F32Array
from numc.numerics.formats import Conversion, Format
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma

Source = np.random.Generator
_NEAR, _FAR = 6, 20  # powers of two


def operand(to: Conversion | GroupConversion, shape: tuple[int, int], source: Source) -> F32Array:
    """Rows of values: half of them near 1, a quarter of any size that the format has, and some with one special."""
    x = np.ldexp(source.standard_normal(shape), source.integers(-_NEAR, _NEAR + 1, shape)).astype(np.float32)
    wide = source.integers(0, 4, len(x)) == 0
    if isinstance(to, GroupConversion):  # whose groups have scales: rows of other sizes, and far elements in them
        powers = source.integers(-_FAR, _FAR, (len(x), 1)) + source.integers(-_NEAR, 1, shape)
        x[wide] = np.ldexp(x, np.where(wide[:, None], powers, 0)).astype(np.float32)[wide]
        if not to.format.shares_tensor:
            x[::29, :] = np.where(source.integers(0, shape[1], (len(x[::29]), 1)) == 0, np.float32(np.inf), x[::29])
        x[::31] = 0
        return x
    x[wide] = anywhere(to.format, (int(wide.sum()), shape[1]), source)
    rows = np.flatnonzero(source.integers(0, 8, len(x)) == 0)
    x[rows, source.integers(0, shape[1], len(rows))] = source.choice(specials(to.format), len(rows))
    return numc.round(x, str(to))


def anywhere(fmt: Format, shape: tuple[int, ...], source: Source) -> F32Array:
    """Numbers of every exponent of a format, subnormals too."""
    least, most = max(fmt.emin - fmt.precision, -149), min(fmt.emax, 127)
    size = np.ldexp(1 + source.random(shape), source.integers(least, most + 1, shape))
    return np.copysign(size, source.standard_normal(shape)).astype(np.float32)


def specials(fmt: Format) -> F32Array:
    """Zeros, the ends of the range, and what is no number."""
    sizes = [0.0, 1.0, float(fmt.max_finite), float(fmt.min_normal), float(fmt.min_subnormal)]
    others = ([np.inf, -np.inf] if fmt.has_infinities else []) + ([np.nan] if fmt.has_nan else [])
    return np.array([*sizes, *(-size for size in sizes), *others], np.float32)


def accumulators(op: Fma, sums: F32Array, source: Source) -> F32Array:
    """Of sums of products: half nearly cancel them, to all depths; others are as large, anything, or specials."""
    fmt, shape = op.acc.format, sums.shape
    near = -sums * (1 + 2.0 ** -source.integers(1, 2 * fmt.precision + 2, shape)).astype(np.float32)
    with np.errstate(over="ignore"):
        same = sums * np.exp2(source.integers(-fmt.precision - 3, fmt.precision + 3, shape)).astype(np.float32)
    which: npt.NDArray[np.int64] = source.integers(0, 16, shape)
    c = np.select([which < 8, which < 12, which < 15], [near, same, anywhere(fmt, shape, source)], 0)
    rest = which == 15
    c[rest] = source.choice(specials(fmt), int(rest.sum()))
    if not fmt.has_nan:
        c = np.where(np.isnan(c), 0, c)
    return numc.round(c.astype(np.float32), str(op.acc))
