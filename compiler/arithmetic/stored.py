"""How a tensor is stored between two programs, as text: a conversion, whose codes it is in, or bits.

Bits are in planes: bit n of byte k is of element n M + k, of the M bytes that the elements take. So eight runs of
neighbouring elements are packed in vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from numc.compiler.arithmetic.grammar import parse_conversion

BITS, POSITIVE, NOT_AT_MOST_ZERO = "bits", "bits of x > 0", "bits of not x <= 0"
"""What stands for a format where a tensor of bool is stored, or what is asked of a float32: they differ for a NaN."""
IN_BITS = (BITS, POSITIVE, NOT_AT_MOST_ZERO)


def stored_dtype(stored: str) -> str:
    """Return the dtype of bits, or of the codes of a conversion to a format of at most 16 bits, as text."""
    return "int8" if stored in IN_BITS or parse_conversion(stored).format.bits <= 8 else "int16"


def stored_shape(stored: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of what a tensor of static sizes, at least one, is stored in: bits are in the last dimension."""
    if stored not in IN_BITS:
        return tuple(shape)
    return (*[1] * (len(shape) - 1), -(-prod(shape) // 8))
