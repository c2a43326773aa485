"""Counts of a tensor: its elements by exponent and by kind, before their conversion and after it."""

from __future__ import annotations

import ctypes
import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays.statistics import FRACTIONS, Histogram, TensorStatistics
from numc.numerics.binary32 import INFINITY
from numc.numerics.formats import Conversion, Format
from numc.numerics.formats.rounding import round_real
from numc.passes.kernels.abi import LEAST_EXPONENT, VALUE_COUNTS, VALUE_LIMITS
from numc.runtime.library import library
from numc.support.errors import NumcError

IntArray = npt.NDArray[np.int64]

_BINS = VALUE_COUNTS.field("exponents").count


def tensor_statistics(
    address: int, tables: Sequence[IntArray | None], sizes: Sequence[int], padding: int, to: Any
) -> TensorStatistics:
    """Return the statistics of the elements at an address plus all sums of one offset of each of three tables.

    A table of None has the offsets 0, 1, 2, ... padding: the number of zeros that are not elements of the tensor. to:
    the conversion of the elements. Raises NumcError if memory is short.
    """
    pointers = (ctypes.c_void_p * 3)(*(None if t is None else t.ctypes.data for t in tables))
    limits = _limits(to.settled) if isinstance(to, Conversion) and isinstance(to.format, Format) else _NO_LIMITS
    words = (ctypes.c_int64 * VALUE_LIMITS.words)(*limits)
    out = np.zeros(VALUE_COUNTS.words, np.int64)
    if library().numc_count_values(address, pointers, (ctypes.c_int64 * 3)(*sizes), words, out.ctypes.data):
        raise NumcError("statistics: out of memory")
    exponents = out[:_BINS]
    counts = dict(zip(VALUE_COUNTS.names[1:], out[_BINS:].tolist(), strict=True))
    counts["zeros"] -= padding
    elements = int(exponents.sum()) + counts["zeros"] + counts["infinities"] + counts["nans"]
    counts["rounded_subnormals"] = counts.pop("subnormals")
    counts["subnormals"] = 0
    if limits is not _NO_LIMITS:
        counts["subnormals"] = int(exponents[: max(0, to.format.emin - LEAST_EXPONENT)].sum())
    return TensorStatistics(
        elements=elements,
        exponents=Histogram(LEAST_EXPONENT, tuple(exponents.tolist())).trimmed(),
        format=str(to),
        most={name: counts[name] / elements if elements else 0.0 for name in FRACTIONS},
        **counts,
    )


_NO_LIMITS = (INFINITY, 0, 0, 0, 0)  # of formats with groups, where the neighbours of a number decide


@cache
def _limits(to: Conversion) -> tuple[int, ...]:
    """Return the words of VALUE_LIMITS: where a conversion begins to give numbers, and normal ones, for both signs."""
    fmt = to.format

    def least(sign: int, holds: Callable[[float], bool]) -> int:
        # A conversion is monotonic. What overflows to NaN is neither zero nor subnormal.
        return bisect_left(range(INFINITY), True, key=lambda bits: holds(abs(round_real(sign * _float(bits), to))))

    words: dict[str, int | list[int]] = {
        "largest": bisect_left(range(INFINITY), True, key=lambda bits: _float(bits) > fmt.max_finite) - 1,
        "nonzero": [least(sign, lambda y: y != 0) for sign in (1, -1)],
        "normal": [least(sign, lambda y: not y < fmt.min_normal) for sign in (1, -1)],
    }
    return tuple(VALUE_LIMITS.in_order(words))


def _float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])
