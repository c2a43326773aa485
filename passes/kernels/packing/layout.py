# ruff: noqa: E501 - the long lines are MLIR text
"""Packed operands: their layout, the code that packs them when a program runs, and the same in numpy for weights.

Rows and lanes share one scheme: a panel is a list of vectors, and a vector is laid out part after part.

rows:   [batch][panel][k / width][row of the panel][part][width along k]
lanes:  [batch][panel][k][vector of the panel][part][width along the lanes]

Elements beyond the operand are +0, and the depth of a lane panel is made even. Element addresses are sums of offsets, a
table for each direction, so every matmul and convolution packs by the same code, whatever its strides, and nothing like
im2col is ever stored for a whole tensor. Along the vector they are read as segments (segments.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.arithmetic.numpy_groups import Operand
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.guard import magnitude_range
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.segments import ARGUMENTS, Read, by_segments
from numc.passes.kernels.values.rounding import emit_parts, emit_round

F32Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """The layout of one packed operand. `count`: rows, or vectors, of a panel.

    pairs: 16-bit integers in place of f32 numbers, for dot products of pairs. A row's vector has them in its first half;
    lanes have two successive steps of k in one 32-bit word, the earlier one low, in the first half of a block's vectors.
    group: how many steps of k share a unit, if there are units. They are f32 numbers: in the second half of the first
    vector of a group of a row, one after the other where a vector has several; behind a block's vectors of lanes.
    channel: there is one largest magnitude for every row or lane, in whole panels, in place of one for the operand.
    """

    side: str
    width: int
    count: int
    parts: int
    k_block: int
    pairs: bool = False
    group: int = 0
    channel: bool = False

    @property
    def extent(self) -> int:
        """Rows or lanes of a panel."""
        return self.count if self.side == "rows" else self.count * self.width

    def panel_words(self, depth: int) -> int:
        """The size of one panel, in f32 numbers."""
        if self.side == "rows":
            return -(-depth // self.width) * self.step_words
        whole, rest = divmod(depth, self.k_block)
        return (whole * self.block_steps(self.k_block) + self.block_steps(rest)) * self.step_words

    def block_steps(self, depth: int) -> int:
        """The size of a block of k of lanes, in steps; `depth` is below `k_block` in the last one."""
        units = -(-depth // self.group) if self.pairs and self.group else 0
        return depth + depth % 2 + units

    def batch_words(self, size: int, depth: int) -> int:
        """The size of the panels of one batch of `size` rows or lanes."""
        return -(-size // self.extent) * self.panel_words(depth)

    def words(self, batches: int, size: int, depth: int) -> int:
        """The size of a whole packed operand with the guard's data behind it, and its largest magnitudes, which are last."""
        blocks = max(1, -(-depth // self.k_block))
        panels = batches * (self.batch_words(size, depth) + 2 * -(-size // self.extent) * blocks)
        return panels + self.largest_words(size)

    def largest_words(self, size: int) -> int:
        """How many largest magnitudes there are of `size` rows or lanes; channels are those of one batch."""
        return -(-size // self.extent) * self.extent if self.channel else 1

    @property
    def step_words(self) -> int:
        """The size of one step along k: `width` of them for rows, one for lanes."""
        return self.count * self.parts * self.width

    def index(self, batch: int, place: int, depth: int, size: int) -> npt.NDArray[np.int64]:
        """Where part 0 of every k of row or lane `place` is; `size` is the number of rows or lanes; shape (depth,)."""
        base = batch * self.batch_words(size, depth) + place // self.extent * self.panel_words(depth)
        k, inside = np.arange(depth), place % self.extent
        if self.side == "rows":
            return np.asarray(
                base + k // self.width * self.step_words + inside * self.parts * self.width + k % self.width
            )
        vector = inside // self.width * self.parts * self.width
        return np.asarray(base + k * self.step_words + vector + inside % self.width)


def layout(kernel: Kernel, side: str) -> Layout:
    """The layout that the micro-kernels of `kernel` read."""
    count = kernel.tile.rows if side == "rows" else kernel.tile.vectors
    group = 0 if kernel.fma.group is None else kernel.fma.group.group or 0
    channel = kernel.groups is not None and kernel.groups_of(side).channel
    return Layout(side, kernel.tile.width, count, kernel.parts(side), kernel.tile.k_block, kernel.pairs, group, channel)


def packed(values: F32Array, to: Layout) -> F32Array:
    """Pack an operand of shape (batch, rows or lanes, k), already in its format; 1-D.

    After the panels come the guard's data: the smallest non-zero magnitude less one and the largest one of every panel
    and block of k, as encodings. The last number is for formats with groups.
    """
    whole = _padded(values, to)
    magnitude = np.abs(whole).view(np.uint32)
    ranges = [
        (np.min(block - np.uint32(1), axis=2), np.max(block, axis=2))
        for block in np.split(magnitude, range(to.k_block, values.shape[2], to.k_block), axis=2)
    ]
    return _joined(_panels(_parts(whole, to.parts), to), ranges, to, np.zeros(1, np.float32))


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
    if to.pairs:
        panels = _pairs(operand, shape, to)
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
    return _joined(panels, ranges, to, last)


def _padded(x: npt.NDArray[Any], to: Layout, fill: float = 0, *, exact: bool = False) -> npt.NDArray[Any]:
    """(batch, rows or lanes, n) with whole panels and, unless `exact`, whole steps of k."""
    batch, size, depth = x.shape
    unit = 1 if exact else to.width if to.side == "rows" else 2
    whole = np.full((batch, -(-size // to.extent) * to.extent, -(-depth // unit) * unit), fill, x.dtype)
    whole[:, :size, :depth] = x
    return whole


def _panels(parts: list[F32Array], to: Layout) -> F32Array:
    """(batch, rows or lanes, k), a list of parts, as panels."""
    split = np.stack(parts, axis=-1)
    batch, size, steps, _ = split.shape
    count = size // to.extent
    if to.side == "rows":
        split = split.reshape(batch, count, to.count, steps // to.width, to.width, to.parts)
        panels: F32Array = split.transpose(0, 1, 3, 2, 5, 4)
    else:
        panels = split.reshape(batch, count, to.count, to.width, steps, to.parts).transpose(0, 1, 4, 2, 5, 3)
    return panels


def _pairs(operand: Operand, shape: tuple[int, int, int], to: Layout) -> F32Array:
    """Panels of 16-bit integers and units."""
    batch, size, depth = shape
    units = operand.units.astype(np.float64)
    if to.group:
        values = operand.values / np.repeat(units, to.group, axis=1)[:, :depth]
    else:
        values = operand.values.astype(np.float64)
    integers = np.where(np.isfinite(values), values, 0).astype(np.int16)
    whole = _padded(integers.reshape(shape), to)
    scales = _padded(operand.units.reshape(batch, size, -1), to, exact=True)
    panels, steps = whole.shape[1] // to.extent, whole.shape[2]
    if to.side == "rows":
        slots = np.zeros((batch, panels, steps // to.width, to.count, to.width), np.float32)
        vectors = whole.reshape(batch, panels, to.count, -1, to.width).transpose(0, 1, 3, 2, 4)
        slots[..., : to.width // 2] = np.ascontiguousarray(vectors).view(np.float32)
        for n in range(scales.shape[2]):
            vector, within = divmod(n * to.group, to.width)
            place = to.width // 2 + within // to.group
            slots[:, :, vector, :, place] = scales[:, :, n].reshape(batch, panels, to.count)
        return slots
    words = np.ascontiguousarray(whole).view(np.float32).reshape(batch, panels, to.count, to.width, -1)
    words = words.transpose(0, 1, 4, 2, 3)
    beside = scales.reshape(batch, panels, to.count, to.width, -1).transpose(0, 1, 4, 2, 3)
    blocks = []
    for start in range(0, depth, to.k_block):
        count = min(to.k_block, depth - start)
        block = np.zeros((batch, panels, to.block_steps(count), to.count, to.width), np.float32)
        half, even = -(-count // 2), count + count % 2
        block[:, :, :half] = words[:, :, start // 2 : start // 2 + half]
        if to.group:
            block[:, :, even:] = beside[:, :, start // to.group : -(-(start + count) // to.group)]
        blocks.append(block)
    return np.concatenate(blocks, axis=2) if blocks else words


def pair_values(panel: F32Array, to: Layout, depth: int) -> F32Array:
    """Return the values (rows or lanes, k) of a panel of pairs; of intN the integers."""
    if to.side == "rows":
        slots = panel.reshape(-1, to.count, to.width)
        integers = np.ascontiguousarray(slots[:, :, : to.width // 2]).view(np.int16)
        integers = integers.transpose(1, 0, 2).reshape(to.count, -1)[:, :depth]
        places = [divmod(k, to.width) for k in range(0, depth, to.group or depth)] if to.group else []
        units = [slots[vector, :, to.width // 2 + within // to.group, None] for vector, within in places]
    else:
        lanes = panel.reshape(-1, to.extent).T
        found: list[npt.NDArray[np.int16]] = []
        units, block = [], 0
        for start in range(0, depth, to.k_block):
            count = min(to.k_block, depth - start)
            pairs = np.ascontiguousarray(lanes[:, block : block + -(-count // 2)]).view(np.int16)
            found.append(pairs[:, :count])
            even, size = count + count % 2, to.block_steps(count)
            units.append(lanes[:, block + even : block + size])
            block += size
        integers = np.concatenate(found, axis=1)
    values = integers.astype(np.float32)
    if not to.group:
        return values
    return values * np.repeat(np.concatenate(units, axis=1), to.group, axis=1)[:, :depth]


def _joined(
    panels: F32Array, ranges: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]], to: Layout, last: F32Array
) -> F32Array:
    """Panels, then for each of them and each block of k the range over its rows or lanes."""
    limits = np.array([(low, high) for low, high in ranges], np.uint32)  # (blocks, 2, batch, rows or lanes)
    blocks, _, batch, _ = limits.shape
    limits = limits.reshape(blocks, 2, batch, -1, to.extent)
    both = np.stack([limits[:, 0].min(axis=-1), limits[:, 1].max(axis=-1)], axis=-1).transpose(1, 2, 0, 3)
    return np.concatenate([panels.reshape(-1), both.reshape(-1).view(np.float32), last])


def unpacked(memory: F32Array, shape: tuple[int, int, int], to: Layout) -> F32Array:
    """The inverse of `packed` and `packed_groups`, but for parts, which are (batch, rows or lanes, k, part)."""
    batch, size, depth = shape
    panels = memory[: batch * to.batch_words(size, depth)]
    if to.pairs:
        rows = [pair_values(panel, to, depth) for panel in panels.reshape(-1, to.panel_words(depth))]
        return np.concatenate(rows).reshape(batch, -1, depth, 1)[:, :size]
    split = panels.reshape(batch, -(-size // to.extent), -1, to.count, to.parts, to.width)
    across = split.transpose(0, 1, 3, 2, 5, 4) if to.side == "rows" else split.transpose(0, 1, 3, 5, 2, 4)
    whole = across.reshape(batch, -(-size // to.extent) * to.extent, -1, to.parts)
    values: F32Array = whole[:, :size, :depth]
    return values


def _parts(x: F32Array, count: int) -> list[F32Array]:
    """emit_parts on arrays of values that are sums of `count` bf16 numbers."""
    if count == 1:
        return [x]
    first = _bf16(x)
    parts, rest = [first], x - first
    while len(parts) < count:
        last = len(parts) == count - 1
        parts.append(np.where(np.isfinite(first), rest if last else _bf16(rest), first))
        rest = rest - parts[-1]
    return parts


def _bf16(x: F32Array) -> F32Array:
    """Round to bf16, RNE."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32)).astype(np.float32)


def pack_text(kernel: Kernel, side: str) -> str:
    """The MLIR function ``@<kernel>_pack_<side>``, which packs one panel for one block of k.

    Arguments: the operand; the offsets along the direction that is not vectorised, how many there are and up to how
    many are filled with +0; the segments of the vectors; the number of vectors; the panel. Returns the smallest non-zero
    magnitude less one and the largest one, as encodings.
    """
    to = layout(kernel, side)
    vector, step = to.parts * to.width, to.step_words
    along, across = (step, vector) if side == "rows" else (vector, step)
    order = ("%src", "%offsets", "%count", "%size", *ARGUMENTS, "%vectors", "%panel")
    numbers = ("%count", "%size", "%vectors")
    f = Function(f"{kernel.name}_pack_{side}", {n: "i64" if n in numbers else "!llvm.ptr" for n in order}, "i32, i32")
    ivec = f"vector<{to.width}xi32>"
    start = Code(to.width, "z")
    widest = {"%low0": start.int(0xFFFFFFFF), "%high0": start.int(0)}
    f.lines += start.lines
    with f.carrying(f"%v = {f.number(0)} to %vectors step {f.number(1)}", widest, ivec) as (low, high):
        panel = f.at("%panel", f.i64("muli", "%v", along))

        def body(read: Read) -> list[str]:
            so_far = {"%low": "%low0", "%high": "%high0"}
            with f.carrying(f"%u = {f.number(0)} to %count step {f.number(1)}", so_far, ivec) as found:
                raw = read(f.at("%src", f.fetch("%offsets", "%u")))
                code = Code(to.width, f"p{len(f.lines)}_")
                place = f.at(panel, f.i64("muli", "%u", across))
                both = _convert(kernel, side, code, raw, place, "%low", "%high")
                f.lines += [*code.lines, f"scf.yield {', '.join(both)} : {ivec}, {ivec}"]
            return found

        both = by_segments(f, to.width, "%v", [ivec, ivec], body)
        with f.loop("%count", "%size") as u:
            place = f.at(panel, f.i64("muli", u, across))
            code = Code(to.width, "n")
            for part in range(to.parts):
                code.store(code.f32(0.0), code.address(place, part * to.width))
            f.lines += code.lines
        f.line(f"scf.yield {', '.join(both)} : {ivec}, {ivec}")
    return f.function(*_reduced(f, low, high, ivec))


def _reduced(f: Function, low: str, high: str, ivec: str) -> tuple[str, str]:
    smallest = f.op(f"vector.reduction <minui>, {low} : {ivec} into i32")
    return smallest, f.op(f"vector.reduction <maxui>, {high} : {ivec} into i32")


def pack_dense_text(kernel: Kernel) -> str:
    """The function ``@<kernel>_pack_dense``: pack_lanes for a panel whose lanes are all there and adjacent.

    It reads whole rows of memory; a stride of a page a vector would wait for the TLB. Arguments: where lane 0 is, the
    offsets along k, how many there are and up to how many are filled with +0, the panel.
    """
    to = layout(kernel, "lanes")
    f = Function(
        f"{kernel.name}_pack_dense",
        {"%src": "!llvm.ptr", "%offsets": "!llvm.ptr", "%count": "i64", "%size": "i64", "%panel": "!llvm.ptr"},
        "i32, i32",
    )
    ivec = f"vector<{to.width}xi32>"
    code = Code(to.width, "q")
    low, high = code.int(0xFFFFFFFF), code.int(0)
    f.lines += code.lines
    bounds = f"%u = {f.number(0)} to %count step {f.number(1)}"
    with f.carrying(bounds, {"%low": low, "%high": high}, ivec) as found:
        source, place = f.at("%src", f.fetch("%offsets", "%u")), f.at("%panel", f.i64("muli", "%u", to.step_words))
        code = Code(to.width, "p")
        low, high = "%low", "%high"
        for v in range(to.count):
            raw = code.load(code.address(source, v * to.width))
            low, high = _convert(kernel, "lanes", code, raw, code.address(place, v * to.parts * to.width), low, high)
        f.lines += [*code.lines, f"scf.yield {low}, {high} : {ivec}, {ivec}"]
    with f.loop("%count", "%size") as u:
        place = f.at("%panel", f.i64("muli", u, to.step_words))
        code = Code(to.width, "z")
        for n in range(to.count * to.parts):
            code.store(code.f32(0.0), code.address(place, n * to.width))
        f.lines += code.lines
    return f.function(*_reduced(f, found[0], found[1], ivec))


def _convert(kernel: Kernel, side: str, code: Code, raw: str, place: str, low: str, high: str) -> tuple[str, str]:
    """Append the conversion of one vector, the stores of its parts and the update of the range; returns the range.

    Groups are converted when the panel is there (convert_groups.py).
    """
    to = layout(kernel, side)
    if kernel.fma.groups:
        code.store(raw, place)
        return low, high
    rounded = emit_round(code, raw, kernel.conversion(side))
    if kernel.limits is not None:
        low, high = magnitude_range(code, code.cast("bitcast", rounded, "f32", "i32"), low, high)
    for part, value in enumerate(emit_parts(code, rounded, to.parts)):
        code.store(value, code.address(place, part * to.width))
    return low, high
