"""Packed operands in numpy: weights, which are packed when a program is built (layout.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.numerics.float_arrays import F32Array
from numc.numerics.grammar import parse_conversion
from numc.numerics.numpy_groups import Operand
from numc.numerics.numpy_rounding import to_nearest
from numc.passes.kernels.packing.code_arrays import coded
from numc.passes.kernels.packing.layout import Layout

#: The least number of words of the panels that are packed at a time: temporary arrays of that size stay in the cache.
_AT_A_TIME = 1 << 16

Range = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]


def packed(values: F32Array, to: Layout, largest: np.float32 | float | F32Array = 0.0) -> F32Array:
    """Pack an operand of shape (batch, rows or lanes, k), already in its format, or in none yet; 1-D.

    After the panels come the guard's data: the smallest non-zero magnitude less one and the largest one of every panel
    and block of k, as encodings. The last numbers are for formats with groups: `largest`, which their conversion needs.
    """
    batch, size, depth = values.shape
    count, words, blocks = -(-size // to.extent), to.panel_words(depth), max(1, -(-depth // to.k_block))
    of_panels, of_limits = batch * count * words, batch * count * blocks * 2
    memory = np.zeros(of_panels + of_limits + to.room + to.largest_words(size), np.float32)
    panels = memory[:of_panels].reshape(batch, count, words)
    limits = memory[of_panels : of_panels + of_limits].view(np.uint32).reshape(batch, count, blocks, 2)
    step = -(-_AT_A_TIME // max(1, batch * words))
    for first in range(0, count, step):
        some, ranges = _packed_panels(values[:, first * to.extent : (first + step) * to.extent], to)
        panels[:, first : first + step].reshape(some.shape)[...] = some
        limits[:, first : first + step] = _limits(ranges, to)
    memory[-to.largest_words(size) :][: np.size(largest)] = largest
    return memory


def _packed_panels(values: F32Array, to: Layout) -> tuple[F32Array, list[Range]]:
    """Pack whole panels: return them, and by block of k the range of every row or lane."""
    depth, whole = values.shape[2], _padded(values, to)
    if to.matrix and to.alone == "bf16" and to.side == "lanes":
        whole[:, :, -(-depth // to.dot) * to.dot :] = -0.0
    magnitude = np.abs(whole).view(np.uint32)
    ranges = [
        (np.min(block - np.uint32(1), axis=2), np.max(block, axis=2))
        for block in np.split(magnitude, range(to.k_block, depth, to.k_block), axis=2)
    ]
    if to.alone:
        return _numbers(whole, depth, to), ranges
    panels = _panels(_parts(whole, to), to)
    if to.dot and to.side == "lanes":
        panels = _with_room(panels, depth, to)
    return coded(panels, depth, to) if to.code else panels, ranges


def packed_groups(
    operand: Operand,
    chunks: Sequence[F32Array],
    shape: tuple[int, int, int],
    to: Layout,
    largest: np.float32 | F32Array,
) -> F32Array:
    """Pack an operand whose groups were converted; `shape` is (batch, rows or lanes, k). `chunks`: its parts, if any.

    The guard's data are the smallest unit of a group that is not zero, less one, and the largest magnitude. The last
    numbers are `largest`, which the conversion depended on.
    """
    batch, size, depth = shape
    last = np.zeros(to.largest_words(size), np.float32)
    last[: np.size(largest)] = largest
    if to.dot:
        panels = _words(operand, shape, to)
    elif to.scales:
        panels = _elements(operand, shape, to)
    else:
        panels = _panels([_padded(part.reshape(shape), to) for part in chunks or [operand.values]], to)
    magnitude, units = operand.largest.view(np.uint32), operand.units.view(np.uint32)
    units = np.where(magnitude == 0, np.uint32(0), units)
    low = _padded((units - np.uint32(1)).reshape(batch, size, -1), to, 0xFFFFFFFF, exact=True)
    high = _padded(np.maximum(magnitude, units).reshape(batch, size, -1), to, exact=True)
    step = to.k_block // to.group if to.group else 1
    ranges = []
    for start in range(0, max(1, -(-depth // to.k_block)) * step, step):
        block = slice(start, start + step)
        ranges.append((low[:, :, block].min(axis=2, initial=0xFFFFFFFF), high[:, :, block].max(axis=2, initial=0)))
    limits = _limits(ranges, to).reshape(-1).view(np.float32)
    return np.concatenate([panels.reshape(-1), limits, np.zeros(to.room, np.float32), last])


def in_codes(numbers: F32Array, elements: F32Array, scales: F32Array, to: Layout) -> F32Array:
    """Return a packed operand with groups in codes: elements (batch, rows or lanes, k), scales (batch, ..., groups).

    numbers: the same as float32 numbers, whose data behind the panels it has.
    """
    batch, size, depth = elements.shape
    groups = Operand(elements, scales if to.scales or to.scaled else scales[..., :0], scales)
    panels = coded(_elements(groups, elements.shape, replace(to, scales=to.scales or to.scaled)), depth, to)
    largest = numbers.size - to.largest_words(size)
    behind = numbers[batch * replace(to, code="", scaled=False).batch_words(size, depth) : largest]
    return np.concatenate([panels.reshape(-1), behind, np.zeros(to.room, np.float32), numbers[largest:]])


def _padded(x: npt.NDArray[Any], to: Layout, fill: float = 0, *, exact: bool = False) -> npt.NDArray[Any]:
    """(batch, rows or lanes, n) with whole panels and, unless `exact`, whole steps of k."""
    batch, size, depth = x.shape
    unit = 1 if exact else to.steps if to.side == "rows" else to.unit
    sizes = batch, -(-size // to.extent) * to.extent, -(-depth // unit) * unit
    # In the order of `x`, so that a weight is transposed once at most.
    turned = x.strides[1] < x.strides[2]
    whole = (
        np.full((sizes[0], sizes[2], sizes[1]), fill, x.dtype).transpose(0, 2, 1)
        if turned
        else np.full(sizes, fill, x.dtype)
    )
    whole[:, :size, :depth] = x
    return whole


def _panels(parts: list[F32Array], to: Layout) -> F32Array:
    """(batch, rows or lanes, k), a list of parts, as panels."""
    split = np.stack(parts, axis=-1) if len(parts) > 1 else parts[0][..., None]  # a weight may be large: no copy
    batch, size, steps, _ = split.shape
    count = size // to.extent
    if to.side == "rows":
        split = split.reshape(batch, count, to.count, steps // to.width, to.width, to.parts)
        panels: F32Array = split.transpose(0, 1, 3, 2, 5, 4)
    else:
        panels = split.reshape(batch, count, to.count, to.width, steps, to.parts).transpose(0, 1, 4, 2, 5, 3)
    return panels


def _with_room(panels: F32Array, depth: int, to: Layout) -> F32Array:
    """Panels of lanes with room for the units of groups behind every block of k."""
    blocks = []
    for start in range(0, depth, to.k_block):
        count = min(to.k_block, depth - start)
        steps = panels[:, :, start : start + -(-count // to.unit) * to.unit]
        room = to.block_steps(count) - steps.shape[2]
        blocks.append(np.pad(steps, [(0, 0), (0, 0), (0, room), *[(0, 0)] * (steps.ndim - 3)]))
    return np.concatenate(blocks, axis=2) if blocks else panels


def _numbers(whole: F32Array, depth: int, to: Layout) -> F32Array:
    """Panels of words of integers, or of bfloat16 codes; a NaN becomes the quiet one."""
    if to.alone == "bf16":
        codes = np.where(np.isnan(whole), 0x7FC0, whole.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        codes = whole.astype(np.int32).astype(f"u{4 // to.dot}")
    if to.side == "rows":
        return _row_words(codes, to)
    blocks = []
    for start in range(0, depth, to.k_block):
        count = min(to.k_block, depth - start)
        there = _lane_words(codes[:, :, start : start + -(-count // to.unit) * to.unit], to)
        room = to.block_steps(count) - there.shape[2]
        blocks.append(np.pad(there, [(0, 0), (0, 0), (0, room), (0, 0), (0, 0)]))
    return np.concatenate(blocks, axis=2) if blocks else np.zeros((1, 0), np.float32)


def _row_words(numbers: npt.NDArray[Any], to: Layout) -> F32Array:
    """Panels of the words of rows (batch, rows, k), and zeros: (batch, panel, vector along k, row, width)."""
    batch, size, steps = numbers.shape
    slots = np.zeros((batch, size // to.extent, steps // to.steps, to.count, to.width), np.float32)
    vectors = numbers.reshape(batch, size // to.extent, to.count, -1, to.steps).transpose(0, 1, 3, 2, 4)
    slots[..., : to.steps // to.dot] = np.ascontiguousarray(vectors).view(np.float32)
    return slots


def _lane_words(numbers: npt.NDArray[Any], to: Layout) -> F32Array:
    """Numbers of lanes (batch, lanes, n) as words (batch, panel, n, vector, lane of the vector)."""
    words: F32Array = np.ascontiguousarray(numbers).view(np.float32)
    words = words.reshape(len(words), -1, to.count, to.width, words.shape[2])
    panels: F32Array = words.transpose(0, 1, 4, 2, 3)
    return panels


def _words(operand: Operand, shape: tuple[int, int, int], to: Layout) -> F32Array:
    """Panels of words of integers, units, and what the offset of unsigned integers adds to sums."""
    batch, size, depth = shape
    dtype = np.int8 if to.dot == 4 else np.int16
    units = operand.units.astype(np.float64)
    if to.group:
        values = operand.values / np.repeat(units, to.group, axis=1)[:, :depth]
    else:
        values = operand.values.astype(np.float64)
    integers = np.where(np.isfinite(values), values, 0).astype(dtype)
    if to.dot == 4 and to.side == "rows":
        integers ^= np.int8(-128)  # 128 more, as an unsigned integer
    whole = _padded(integers.reshape(shape), to)
    scales = _padded(operand.units.reshape(batch, size, -1), to, exact=True)
    panels = whole.shape[1] // to.extent
    if to.side == "rows":
        slots = _row_words(whole, to)
        for n in range(scales.shape[2]):
            vector, within = divmod(n * to.group, to.width)
            lane = to.width // 2 + within // to.group
            slots[:, :, vector, :, lane] = scales[:, :, n].reshape(batch, panels, to.count)
        return slots

    blocks = []
    for start in range(0, depth, to.k_block):
        count = min(to.k_block, depth - start)
        block = np.zeros((batch, panels, to.block_steps(count), to.count, to.width), np.float32)
        size_of_group = to.group or to.k_block
        padded = -(-count // to.unit) * to.unit
        inside = whole[:, :, start : start + padded]
        block[:, :, : padded // to.dot] = _lane_words(inside, to)
        behind = [scales[:, :, start // size_of_group : -(-(start + count) // size_of_group)]] if to.group else []
        if to.dot == 4:
            sums = np.add.reduceat(inside.astype(np.int32), range(0, count, size_of_group), axis=2, dtype=np.int32)
            behind.append((sums * np.int32(-128)).view(np.float32))
        if behind:
            block[:, :, to.word_steps(count) :] = _lane_words(np.concatenate(behind, axis=2), to)
        blocks.append(block)
    return np.concatenate(blocks, axis=2) if blocks else np.zeros((batch, panels, 0, to.count, to.width), np.float32)


def _elements(operand: Operand, shape: tuple[int, int, int], to: Layout) -> F32Array:
    """Panels of elements with the scales of their groups behind every block of k."""
    batch, size, depth = shape
    values, scales = operand.values.reshape(shape), operand.units.reshape(batch, size, -1)
    blocks = []
    for start in range(0, depth, to.k_block):
        end = min(start + to.k_block, depth)
        of_block = scales[:, :, start // to.scale_steps : -(-end // to.scale_steps)]
        parts = [_panels([_padded(values[:, :, start:end], to)], to)]
        if not to.scales:
            pass
        elif to.side == "rows":
            parts.append(_panels([_padded(of_block, to)], to))
        else:
            parts.append(_panels([_padded(of_block, to, exact=True)], to))
        blocks.append(np.concatenate(parts, axis=2))
    return np.concatenate(blocks, axis=2)


def word_values(panel: F32Array, to: Layout, depth: int) -> F32Array:
    """Return the values (rows or lanes, k) of a panel of words; of intN the integers."""
    dtype = np.dtype(f"{'u' if to.alone in ('bf16', 'unsigned') else 'i'}{4 // to.dot}")
    if to.side == "rows":
        slots = panel.reshape(-1, to.count, to.width)
        integers = np.ascontiguousarray(slots[:, :, : to.steps // to.dot]).view(dtype)
        if to.dot == 4 and not to.alone:
            integers = integers ^ np.int8(-128)
        integers = integers.transpose(1, 0, 2).reshape(to.count, -1)[:, :depth]
        places = [divmod(k, to.width) for k in range(0, depth, to.group or depth)] if to.group else []
        units = [slots[vector, :, to.width // 2 + within // to.group, None] for vector, within in places]
    else:
        lanes = panel.reshape(-1, to.extent).T
        integer_blocks: list[npt.NDArray[Any]] = []
        units, block = [], 0
        for start in range(0, depth, to.k_block):
            count = min(to.k_block, depth - start)
            words = np.ascontiguousarray(lanes[:, block : block + -(-count // to.dot)]).view(dtype)
            integer_blocks.append(words[:, :count])
            if to.group:
                first = block + to.word_steps(count)
                units.append(lanes[:, first : first + -(-count // to.group)])
            block += to.block_steps(count)
        integers = np.concatenate(integer_blocks, axis=1)
    if to.alone == "bf16":
        wide: F32Array = (integers.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide
    values = integers.astype(np.float32)
    if not to.group:
        return values
    return values * np.repeat(np.concatenate(units, axis=1), to.group, axis=1)[:, :depth]


def _limits(ranges: list[Range], to: Layout) -> npt.NDArray[np.uint32]:
    """From the ranges of rows or lanes, by block of k, those of panels: (batch, panel, block of k, 2)."""
    limits = np.array(ranges, np.uint32)  # (blocks, 2, batch, rows or lanes)
    blocks, _, batch, _ = limits.shape
    limits = limits.reshape(blocks, 2, batch, -1, to.extent)
    both = np.stack([limits[:, 0].min(axis=-1), limits[:, 1].max(axis=-1)], axis=-1)
    panel_limits: npt.NDArray[np.uint32] = both.transpose(1, 2, 0, 3)
    return panel_limits


def unpacked(memory: F32Array, shape: tuple[int, int, int], to: Layout) -> F32Array:
    """The inverse of `packed` and `packed_groups`, but for parts, which are (batch, rows or lanes, k, part)."""
    batch, size, depth = shape
    panels = memory[: batch * to.batch_words(size, depth)]
    if to.dot:
        rows = [word_values(panel, to, depth) for panel in panels.reshape(-1, to.panel_words(depth))]
        return np.concatenate(rows).reshape(batch, -1, depth, 1)[:, :size]
    split = panels.reshape(batch, -(-size // to.extent), -1, to.count, to.parts, to.width)
    across = split.transpose(0, 1, 3, 2, 5, 4) if to.side == "rows" else split.transpose(0, 1, 3, 5, 2, 4)
    whole = across.reshape(batch, -(-size // to.extent) * to.extent, -1, to.parts)
    values: F32Array = whole[:, :size, :depth]
    return values


def _parts(x: F32Array, to: Layout) -> list[F32Array]:
    """emit_parts on arrays of values of a compound format."""
    if to.parts == 1:
        return [x]
    fmt = parse_conversion(to.part).format
    first = to_nearest(x, fmt)
    parts, rest = [first], x - first
    while len(parts) < to.parts:
        last = len(parts) == to.parts - 1
        parts.append(np.where(np.isfinite(first), rest if last else to_nearest(rest, fmt), first))
        rest = rest - parts[-1]
    return parts
