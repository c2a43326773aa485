"""Panels of codes in numpy (layout.py): weights, which are packed when a program is built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from numc.numerics.float_arrays import F32Array
from numc.numerics.formats import FORMATS, Format, Record
from numc.passes.kernels.packing.layout import Layout

_Words = npt.NDArray[np.uint32]
_AT_ONCE = 1 << 20  # how many elements are encoded at once: that takes several times their memory


def coded(panels: F32Array, depth: int, to: Layout) -> F32Array:
    """Return panels (batch, panel, ...) of float32 numbers in the codes of the format `to.code`: (panel, word).

    depth: how many steps of k they have. What lies behind the numbers of a block stays as it is.
    """
    count = panels.shape[0] * panels.shape[1]
    size = panels.size // max(count, 1)
    packed = np.empty((count, to.panel_words(depth)), np.float32)
    flat = panels.reshape(count, size)
    for some in _some(count, size):
        words = packed[some].view(np.uint32)
        for block, columns in _blocks(depth, to):
            words[:, columns] = _joined(_encoded(flat[some, block], to.code_format), to)
        for block, columns in _behind(depth, to):
            packed[some, columns] = flat[some, block]
    return packed


def expanded(words: F32Array, depth: int, to: Layout) -> F32Array:
    """The inverse of `coded`: panels of codes (panel, word), of `depth` steps of k, as panels of float32 numbers."""
    size = replace(to, code="").panel_words(depth)
    panels = np.empty((len(words), size), np.float32)
    for some in _some(len(words), size):
        stored = words[some].view(np.uint32)
        for block, columns in _blocks(depth, to):
            codes = _split(stored[:, columns], block.stop - block.start, to)
            panels[some, block] = to.code_format.decode_array(codes.astype(np.int64))
        for block, columns in _behind(depth, to):
            panels[some, block] = words[some, columns]
    return panels


def _some(count: int, size: int) -> Iterator[slice]:
    """Slices of `count` panels that are worked on at once."""
    step = max(1, _AT_ONCE // max(size, 1))
    return (slice(start, start + step) for start in range(0, count, step))


def _blocks(depth: int, to: Layout) -> Iterator[tuple[slice, slice]]:
    """Where the numbers of the blocks of k of a panel are, and where their codes are."""
    for (number, word), size in _starts(depth, to):
        vectors = to.block_vectors(size) - to.scale_vectors(size)
        yield slice(number, number + vectors * to.width), slice(word, word + to.words_of(vectors))


def _behind(depth: int, to: Layout) -> Iterator[tuple[slice, slice]]:
    """Where what lies behind them is, among numbers and among codes."""
    for (number, word), size in _starts(depth, to):
        behind = to.scale_vectors(size) * to.width
        ends = number + to.block_vectors(size) * to.width, word + to.block_words(size)
        numbers, words = (slice(end - behind, end) for end in ends)
        yield numbers, words


def _starts(depth: int, to: Layout) -> Iterator[tuple[tuple[int, int], int]]:
    """Where the blocks of k of a panel begin, among numbers and among codes, and how many steps they have."""
    number = word = 0
    for k in range(0, depth, to.k_block):
        size = min(to.k_block, depth - k)
        yield (number, word), size
        number += to.block_vectors(size) * to.width
        word += to.block_words(size)


def _joined(codes: _Words, to: Layout) -> _Words:
    """The codes of one block of panels, (panel, element), as words."""
    panels, vectors = len(codes), codes.shape[1] // to.width
    each = codes.reshape(panels, vectors, to.width)
    words = np.zeros((panels, to.words_of(vectors) // to.width, to.width), np.uint32)
    for first in range(min(to.period, vectors)):
        word, bit = divmod(first * to.bits, 32)
        some, step = each[:, first :: to.period], to.period * to.bits // 32
        low = words[:, word::step]
        low[:, : some.shape[1]] |= some << np.uint32(bit)
        if bit + to.bits > 32:
            high = words[:, word + 1 :: step]
            high[:, : some.shape[1]] |= some >> np.uint32(32 - bit)
    return words.reshape(panels, -1)


def _split(words: _Words, size: int, to: Layout) -> _Words:
    """The codes, (panel, element), `size` of a panel, that the words of one block hold."""
    panels, vectors = len(words), size // to.width
    each = words.reshape(panels, -1, to.width)
    codes = np.empty((panels, vectors, to.width), np.uint32)
    for first in range(min(to.period, vectors)):
        word, bit = divmod(first * to.bits, 32)
        some, step = codes[:, first :: to.period], to.period * to.bits // 32
        some[...] = each[:, word::step][:, : some.shape[1]] >> np.uint32(bit)
        if bit + to.bits > 32:
            some |= each[:, word + 1 :: step][:, : some.shape[1]] << np.uint32(32 - bit)
    codes &= np.uint32((1 << to.bits) - 1)
    return codes.reshape(panels, size)


def _encoded(values: F32Array, fmt: Format) -> _Words:
    """The codes of values of a format, or of its parts; a NaN has one code."""
    if not (isinstance(fmt, Record) and fmt.is_full_range):
        return fmt.encode_array(values).astype(np.uint32)
    unused = np.uint32(FORMATS["fp32"].precision - fmt.precision)
    bits: _Words = np.ascontiguousarray(values).view(np.uint32) >> unused
    nan = np.isnan(values)
    if nan.any():
        bits[nan] = fmt.encode(float("nan"))
    return bits
