"""How many bits the weights of a trained net need: figures 6.2 (exponent) and 6.4 (significand) of the thesis."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt


def exponent_bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the fewest exponent bits, 2 to 8, whose normal numbers have the exponents of `x`; 0 for zeros.

    Also for the subnormal numbers of float32, which no format has as normal numbers.
    """
    exponents = np.frexp(x)[1] - 1
    bits = np.zeros(x.shape, np.int64)
    for width in range(8, 1, -1):
        bias = 2 ** (width - 1) - 1
        bits[(x != 0) & (exponents >= 1 - bias) & (exponents <= bias)] = width
    return bits


def significand_bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the significand bits that are stored up to the last one that is set, 0 to 23."""
    fraction = x.view(np.uint32).astype(np.int64) & 0x7FFFFF
    lowest = np.frexp((fraction & -fraction).astype(np.float64))[1] - 1
    return np.where(fraction == 0, 0, 23 - lowest)


def counts(bits: npt.NDArray[np.int64]) -> dict[str, int]:
    """Return how many weights need each number of bits, the most bits first."""
    return {str(width): count for width, count in sorted(Counter(bits.tolist()).items(), reverse=True)}
