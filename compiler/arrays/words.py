"""Values in words: as many whole fields in a word as fit, and zeros in the bits that are left (docs/arithmetic.md)."""

from __future__ import annotations

import numpy as np

from numc.numerics.codes import Bits
from numc.numerics.formats import Format
from numc.numerics.groups import GroupFormat
from numc.support.errors import NumcError, shown

WORDS = (8, 16, 32, 64)
"""The sizes of words in bits."""


def checked_align(align: object) -> int | None:
    """Return the bits of a word, or None for dense storage. Raises NumcError for others than WORDS."""
    if align is not None and (isinstance(align, bool) or align not in WORDS):
        raise NumcError(f"align: got {shown(align)}, want {', '.join(map(str, WORDS))}, or None for dense storage")
    return align


def word_bytes(values: int, fmt: Format | GroupFormat, align: int) -> int:
    """Return the bytes of so many values in words of `align` bits.

    Raises NumcError for a format whose groups store a scale, and for one that is wider than a word.
    """
    count, width = _fields(values, fmt)
    if width > align:
        raise NumcError(f"align: got {align}, but a value of '{fmt.name}' has {width} bits: want a larger word")
    return -(-count // (align // width)) * align // 8


def to_words(dense: bytes, values: int, fmt: Format | GroupFormat, align: int) -> bytes:
    """Return densely stored values in words, the first field of each lowest. Raises NumcError like `word_bytes`."""
    size, (count, width) = word_bytes(values, fmt, align), _fields(values, fmt)
    words = 8 * size // align
    fields: Bits = np.zeros((words * (align // width), width), np.uint8)
    bits = np.unpackbits(np.frombuffer(dense, np.uint8), count=count * width, bitorder="little")
    fields[:count] = bits.reshape(count, width)
    spread: Bits = np.zeros((words, align), np.uint8)
    spread[:, : align // width * width] = fields.reshape(words, -1)
    return np.packbits(spread.reshape(-1), bitorder="little").tobytes()


def from_words(data: bytes, values: int, fmt: Format | GroupFormat, align: int) -> bytes:
    """Return what `to_words` was given; `data` has the right size."""
    count, width = _fields(values, fmt)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, align)
    fields = bits[:, : align // width * width].reshape(-1, width)[:count]
    return np.packbits(fields.reshape(-1), bitorder="little").tobytes()


def _fields(values: int, fmt: Format | GroupFormat) -> tuple[int, int]:
    """Return the number of fields and the bits of each. Raises NumcError for formats whose groups store a scale."""
    if isinstance(fmt, Format):
        return values * fmt.parts, fmt.bits // fmt.parts
    if fmt.group is None:  # the scale is stored apart
        return values, fmt.group_bits(1)
    raise NumcError(f"align: groups of '{fmt.name}' store a scale and cannot be cut into words: leave align out")
