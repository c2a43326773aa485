"""The storage of a tensor between two programs, as text: a conversion, whose codes it is in, or bits.

Bits of a tensor are in planes, each of which has a bit of every element: bit n of byte k is of element n M + k, of the
M bytes of the plane. So eight runs of neighbouring elements are packed in vectors. Codes of formats with groups are in
planes of bytes and then of bits, behind the exponents of the groups and the largest magnitude (stored_groups.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from numc.numerics.grammar import parse_any_conversion, parse_conversion
from numc.numerics.groups import GroupConversion

BITS, POSITIVE, NOT_AT_MOST_ZERO = "bits", "bits of x > 0", "bits of not x <= 0"
"""In place of a format: a bool in a bit, or the answer to a question about a float32; they differ for a NaN."""
IN_BITS = (BITS, POSITIVE, NOT_AT_MOST_ZERO)
_ALONG = " along dimension"


def along(to: GroupConversion, axes: Sequence[int]) -> str:
    """Return the text for a tensor stored in a format whose groups lie along dimensions, the outermost one first."""
    if to.format.group is None:
        return str(to)
    return f"{to}{_ALONG}{'s' * (len(axes) > 1)} {', '.join(map(str, axes))}"


def groups_of(stored: str) -> tuple[GroupConversion, tuple[int, ...]] | None:
    """Return the conversion and the dimensions that groups lie along, none for a scale of the tensor; None without."""
    text, _, axes = stored.partition(_ALONG)
    to = None if stored in IN_BITS else parse_any_conversion(text)
    if not isinstance(to, GroupConversion):
        return None
    return to, tuple(map(int, axes.removeprefix("s").split(","))) if axes else ()


def has_codes(to: GroupConversion) -> bool:
    """Whether the values of a conversion have codes from which it makes the same values again."""
    return to.noise is None and to.open is None and not to.channel and to.format.has_codes(to.rounding)


def stored_dtype(stored: str) -> str:
    """Return the dtype of bits, of bytes, or of the codes of a conversion to a format of at most 16 bits, as text."""
    if stored in IN_BITS or groups_of(stored) is not None:
        return "int8"
    return "int8" if parse_conversion(stored).format.bits <= 8 else "int16"


def stored_shape(stored: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of what a tensor is stored in. Bytes of planes are in the last dimension, of one or more."""
    grouping = groups_of(stored)
    if stored not in IN_BITS and grouping is None:
        return tuple(shape)
    bits, count = (1, 0) if grouping is None else (grouping[0].format.code_bits, group_count(*grouping, shape))
    elements = prod(shape)
    size = bits // 8 * elements + bits % 8 * -(-elements // 8)
    return (*[1] * (len(shape) - 1), size if grouping is None else size + 2 * count + 4)


def group_count(to: GroupConversion, axes: Sequence[int], shape: Sequence[int]) -> int:
    """Return how many groups a tensor has, 0 if they share one scale."""
    group, steps = to.format.group, prod(shape[axis] for axis in axes)
    return 0 if group is None else prod(shape) // steps * -(-steps // group)
