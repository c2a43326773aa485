"""Numbers of the host in a program's text, where Python's differ from those of MLIR."""

from __future__ import annotations

import operator
import struct

import numpy as np


def quotient(a: int, b: int) -> int:
    """The quotient of integers, towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    """The remainder of that quotient."""
    return a - quotient(a, b) * b


def ceiling(a: int, b: int) -> int:
    """The quotient of integers, upwards."""
    return -(-a // b)


def wrapped(value: int, bits: int) -> int:
    """A signed integer of so many bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def leading_zeros(value: int, bits: int) -> int:
    """The number of zeros above the highest bit that is set."""
    return bits - (value % (1 << bits)).bit_length()


def run_length(depth: int, runs: int, least: int) -> int:
    """The number of steps of each of at most so many runs of a reduction: a multiple of `least`."""
    return max(ceiling(ceiling(depth, runs), least), 1) * least


def float32(value: float) -> float:
    """A number rounded to binary32; one that is too large is an infinity."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def float64_bits(value: float) -> int:
    """The encoding of a binary64 number, as a signed integer."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def divided(a: float, b: float) -> float:
    """The quotient of binary64 numbers, an infinity or NaN where the divisor is zero."""
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def maximum(a: float, b: float) -> float:
    """The larger number, NaN if one is, and +0 of two zeros."""
    return float(np.maximum(a, b)) if a or b else a + b


def minimum(a: float, b: float) -> float:
    """The smaller number, NaN if one is, and -0 of two zeros."""
    return float(np.minimum(a, b)) if a or b else -(-a + -b)


_ORDERED = {1: operator.eq, 2: operator.gt, 3: operator.ge, 4: operator.lt, 5: operator.le, 6: operator.ne}


def compared(predicate: int, a: float, b: float) -> bool:
    """arith.cmpf, by the number of its predicate: 1 to 6 and 7 hold of numbers, 8 and 9 to 14 with a NaN, too."""
    unordered = a != a or b != b
    if predicate in (0, 15):
        return predicate == 15
    if predicate in (7, 14):
        return unordered == (predicate == 14)
    if predicate < 7:
        return not unordered and bool(_ORDERED[predicate](a, b))
    return unordered or bool(_ORDERED[predicate - 7](a, b))
