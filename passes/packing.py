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

import numpy as np
import numpy.typing as npt

from numc.passes.code import Code, Function
from numc.passes.kernels import Kernel, magnitude_range
from numc.passes.rounding import emit_parts, emit_round
from numc.passes.segments import ARGUMENTS, Read, by_segments

F32Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """The layout of one packed operand. `count`: rows, or vectors, of a panel."""

    side: str
    width: int
    count: int
    parts: int
    k_block: int

    @property
    def extent(self) -> int:
        """Rows or lanes of a panel."""
        return self.count if self.side == "rows" else self.count * self.width

    def panel_words(self, depth: int) -> int:
        """The size of one panel, in f32 numbers."""
        steps = -(-depth // self.width) if self.side == "rows" else depth + depth % 2
        return steps * self.step_words

    def batch_words(self, size: int, depth: int) -> int:
        """The size of the panels of one batch of `size` rows or lanes."""
        return -(-size // self.extent) * self.panel_words(depth)

    def words(self, batches: int, size: int, depth: int) -> int:
        """The size of a whole packed operand with the guard's data behind it, and its largest magnitude, which is last."""
        blocks = max(1, -(-depth // self.k_block))
        return batches * (self.batch_words(size, depth) + 2 * -(-size // self.extent) * blocks) + 1

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
    return Layout(side, kernel.tile.width, count, kernel.parts(side), kernel.tile.k_block)


def packed(values: F32Array, to: Layout, largest: np.float32, chunks: Sequence[F32Array] = ()) -> F32Array:
    """Pack an operand of shape (batch, rows or lanes, k), already in its format; 1-D. `chunks`: its parts, if not bf16.

    After the panels come the guard's data: the smallest non-zero magnitude less one and the largest one of every panel
    and block of k, as encodings. The last number is `largest`, what the conversion depended on if it was to groups.
    """
    batch, size, depth = values.shape
    panels = -(-size // to.extent)
    steps = to.panel_words(depth) // to.step_words * (to.width if to.side == "rows" else 1)

    def padded(x: F32Array) -> F32Array:
        whole = np.zeros((batch, panels * to.extent, steps), np.float32)
        whole[:, :size, :depth] = x
        return whole

    whole = padded(values)
    split = np.stack([padded(part) for part in chunks] or _parts(whole, to.parts), axis=-1)
    if to.side == "rows":
        split = split.reshape(batch, panels, to.count, steps // to.width, to.width, to.parts)
        split = split.transpose(0, 1, 3, 2, 5, 4)
    else:
        split = split.reshape(batch, panels, to.count, to.width, steps, to.parts).transpose(0, 1, 4, 2, 5, 3)
    guarded = np.stack([padded(part) for part in chunks], axis=-1) if chunks else whole[..., None]
    magnitude = np.abs(guarded).view(np.uint32).reshape(batch, panels, to.extent, steps, -1)
    ranges = [
        (np.min(block - np.uint32(1), axis=(2, 3, 4)), np.max(block, axis=(2, 3, 4)))
        for block in np.split(magnitude, range(to.k_block, depth, to.k_block), axis=3)
    ]
    limits = np.array(ranges, np.uint32).transpose(2, 3, 0, 1)
    return np.concatenate([split.reshape(-1), limits.reshape(-1).view(np.float32), [largest]])


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

    Groups are converted when the panel is there (quantize.py).
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
