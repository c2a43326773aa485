"""Arrays of binary32 and binary64 numbers: their types, their exponents, and powers of two."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32Array = npt.NDArray[np.float32]
F64Array = npt.NDArray[np.float64]


def exponents(x: F64Array) -> npt.NDArray[np.int64]:
    """floor(log2) of positive binary64 numbers that are binary32 numbers, subnormal ones too; -1023 for zero."""
    return (x.view(np.int64) >> 52 & 0x7FF) - 1023


def power(exponent: npt.NDArray[np.int64]) -> F64Array:
    """Two to the exponents, -1022 to 1023."""
    powers: F64Array = (exponent + 1023 << 52).view(np.float64)
    return powers
