"""NaN, infinities, zeros of both signs, subnormals and the ends of each dtype, and what is the same among them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def float_values(dtype: Any) -> np.ndarray[Any, Any]:
    """Special values, and the ends of the dtype."""
    limits = ml_dtypes.finfo(dtype)
    ends = [float(limits.max), float(limits.smallest_normal), float(limits.smallest_subnormal)]
    sizes = [0, 0.5, 1, 1.5, 2.5, 3, 20, 90, 1000, *ends, np.inf]
    return np.array([*sizes, *(-size for size in sizes), np.nan]).astype(dtype)


def integer_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return np.array([low, low + 1, high, high - 1, high // 2, 0, 1, 2, 3, 7, *[-1, -2, -7] * (low < 0)], dtype=dtype)


def same(
    found: np.ndarray[Any, Any], want: np.ndarray[Any, Any], dtype: Any, *, exactly: bool = False
) -> np.ndarray[Any, Any]:
    """Which elements are the same: NaN, infinities and zeros with their signs, and others but for rounding errors."""
    if found.dtype.kind in "biu" or want.dtype.kind in "biu":
        return np.asarray(found == want)
    one, other = found.astype(np.longdouble), want.astype(np.longdouble)
    nan = np.isnan(one) & np.isnan(other)
    zeros = (one == 0) & (other == 0)
    equal = nan | (one == other) & ~zeros | zeros & (np.signbit(one) == np.signbit(other))
    if exactly:
        return np.asarray(equal)
    limits = [ml_dtypes.finfo(each) for each in {np.dtype(dtype), found.dtype} if each.kind not in "biu"]
    eps, least = max(float(each.eps) for each in limits), max(float(each.smallest_normal) for each in limits)
    with np.errstate(all="ignore"):
        near = np.abs(one - other) <= 16 * eps * np.abs(other) + 4 * least * eps
    return np.asarray(equal | near & np.isfinite(other) & ~zeros)
