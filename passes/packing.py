# ruff: noqa: E501 - the long lines are MLIR text
"""Packed operands: their layout, the code that packs them when a program runs, and the same in numpy for weights.

Rows and lanes share one scheme: a panel is a list of vectors, and a vector is laid out part after part.

rows:   [batch][panel][k / width][row of the panel][part][width along k]
lanes:  [batch][panel][k][vector of the panel][part][width along the lanes]

Elements beyond the operand are +0, and the depth of a lane panel is made even. Element addresses are sums of offsets, a
table for each direction, so every matmul and convolution packs by the same code, whatever its strides, and nothing like
im2col is ever stored for a whole tensor. Along the vector the table is cut into segments of adjacent elements, or of every
other one; each is one masked load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numc.passes.code import Code, Function
from numc.passes.kernels import Kernel, magnitude_range
from numc.passes.rounding import emit_parts, emit_round

F32Array = npt.NDArray[np.float32]
EVERY_OTHER = 1 << 62


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
        """The size of a whole packed operand with the guard's data behind it."""
        blocks = max(1, -(-depth // self.k_block))
        return batches * (self.batch_words(size, depth) + 2 * -(-size // self.extent) * blocks)

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
    conversion = kernel.row_conversion if side == "rows" else kernel.lane_conversion
    count = kernel.tile.rows if side == "rows" else kernel.tile.vectors
    return Layout(side, kernel.tile.width, count, conversion.format.parts, kernel.tile.k_block)


def packed(values: F32Array, to: Layout) -> F32Array:
    """Pack an operand of shape (batch, rows or lanes, k), already in its format; 1-D.

    After the panels come the guard's data: the smallest non-zero magnitude less one and the largest one of every panel
    and block of k, as encodings.
    """
    batch, size, depth = values.shape
    panels = -(-size // to.extent)
    steps = to.panel_words(depth) // to.step_words * (to.width if to.side == "rows" else 1)
    whole = np.zeros((batch, panels * to.extent, steps), np.float32)
    whole[:, :size, :depth] = values
    split = np.stack(_parts(whole, to.parts), axis=-1)
    if to.side == "rows":
        split = split.reshape(batch, panels, to.count, steps // to.width, to.width, to.parts)
        split = split.transpose(0, 1, 3, 2, 5, 4)
    else:
        split = split.reshape(batch, panels, to.count, to.width, steps, to.parts).transpose(0, 1, 4, 2, 5, 3)
    magnitude = np.abs(whole).view(np.uint32).reshape(batch, panels, to.extent, steps)
    ranges = [
        (np.min(block - np.uint32(1), axis=(2, 3)), np.max(block, axis=(2, 3)))
        for block in np.split(magnitude, range(to.k_block, depth, to.k_block), axis=3)
    ]
    limits = np.array(ranges, np.uint32).transpose(2, 3, 0, 1)
    return np.concatenate([split.reshape(-1), limits.reshape(-1).view(np.float32)])


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
    many are filled with +0; segments of the vectors (first segment of each vector, offset and mask of each segment);
    the number of vectors; the panel. Returns the smallest non-zero magnitude less one and the largest one, as encodings.
    The masks of a vector that takes every other element (EVERY_OTHER) have a bit for each element passed.
    """
    to = layout(kernel, side)
    vector, step = to.parts * to.width, to.step_words
    along, across = (step, vector) if side == "rows" else (vector, step)
    pointers = ("%src", "%offsets", "%first", "%segment", "%masks", "%panel")
    order = ("%src", "%offsets", "%count", "%size", "%first", "%segment", "%masks", "%vectors", "%panel")
    arguments = {name: "!llvm.ptr" if name in pointers else "i64" for name in order}
    f = Function(f"{kernel.name}_pack_{side}", arguments, "i32, i32")
    ivec = f"vector<{to.width}xi32>"
    lanes = Code(to.width, "z")
    zeros, ones, none = lanes.f32(0.0), lanes.int(0xFFFFFFFF), lanes.int(0)
    f.lines += lanes.lines

    def mask_of(word: str, width: int) -> str:
        bits = f.cast("trunci", word, "i64", f"i{width}")
        return f.op(f"llvm.bitcast {bits} : i{width} to vector<{width}xi1>")

    def load(address: str, mask: str, before: str, width: int) -> str:
        kinds = f"!llvm.ptr, vector<{width}xi1>, vector<{width}xf32>"
        return f.op(
            f"llvm.intr.masked.load {address}, {mask}, {before} {{alignment = 4 : i32}} : ({kinds}) -> vector<{width}xf32>"
        )

    def packed_along(read: Callable[[str], str], low: str, high: str, panel: str) -> str:
        """All vectors along the other direction; `read` appends the load of one, given the address of its origin."""
        bounds = f"{f.number(0)} to %count step {f.number(1)}"
        with f.carrying(f"scf.for %u = {bounds}", {"%low": low, "%high": high}, ivec) as found:
            raw = read(f.at("%src", f.fetch("%offsets", "%u")))
            code = Code(to.width, f"p{len(f.lines)}_")
            place = f.at(panel, f.i64("muli", "%u", across))
            low, high = _convert(kernel, side, code, raw, place, "%low", "%high")
            f.lines += code.lines
            f.line(f"scf.yield {low}, {high} : {ivec}, {ivec}")
        return found

    def pieces(s0: str, count: str, some: str, most: int, width: int) -> Callable[[str], str]:
        """A vector of up to `most` segments, each out of `width` elements; `some` is a segment that exists in any case."""
        starts, masks = [], []
        for n in range(most):
            there = f.compare("ugt", count, f.number(n), "i64")
            s = f.select(there, f.i64("addi", s0, n), some, "i64")
            starts.append(f.fetch("%segment", s))
            masks.append(mask_of(f.select(there, f.fetch("%masks", s), f.number(0), "i64"), width))

        def read(origin: str) -> str:
            wide = f.op(f"arith.constant dense<0.0> : vector<{width}xf32>") if width != to.width else zeros
            for start, mask in zip(starts, masks, strict=True):
                wide = load(f.at(origin, start), mask, wide, width)
            return wide if width == to.width else _every_other(f, wide, width)

        return read

    def one_by_one(s0: str, count: str) -> Callable[[str], str]:
        s1 = f.i64("addi", s0, count)

        def read(origin: str) -> str:
            kind = f"vector<{to.width}xf32>"
            bounds = f"{s0} to {s1} step {f.number(1)}"
            found = f.op(f"scf.for %s = {bounds} iter_args(%so_far = {zeros}) -> ({kind}) : i64 {{")
            mask = mask_of(f.fetch("%masks", "%s"), to.width)
            more = load(f.at(origin, f.fetch("%segment", "%s")), mask, "%so_far", to.width)
            f.line(f"scf.yield {more} : {kind}")
            f.line("}")
            return found

        return read

    bounds = f"{f.number(0)} to %vectors step {f.number(1)}"
    with f.carrying(f"scf.for %v = {bounds}", {"%low0": ones, "%high0": none}, ivec) as result:
        s0 = f.fetch("%first", "%v")
        count = f.i64("subi", f.fetch("%first", f.i64("addi", "%v", 1)), s0)
        # A load that is masked out entirely is cheap where there is memory, and very slow where there is none.
        some = f.i64("muli", s0, f.i64("minui", count, 1))
        word = f.fetch("%masks", some)
        panel = f.at("%panel", f.i64("muli", "%v", along))
        every_other = f.compare("uge", word, f.number(EVERY_OTHER), "i64")
        cases: list[tuple[str, Callable[[], Callable[[str], str]]]] = [
            (every_other, lambda: pieces(s0, count, some, 3, 2 * to.width)),
            (f.compare("ule", count, f.number(1), "i64"), lambda: pieces(s0, count, some, 1, to.width)),
            (f.compare("ule", count, f.number(2), "i64"), lambda: pieces(s0, count, some, 2, to.width)),
            (f.compare("ule", count, f.number(4), "i64"), lambda: pieces(s0, count, some, 4, to.width)),
            ("", lambda: one_by_one(s0, count)),
        ]

        def choose(n: int) -> str:
            condition, reader = cases[n]
            if not condition:
                return packed_along(reader(), "%low0", "%high0", panel)
            found = f.op(f"scf.if {condition} -> ({ivec}, {ivec}) {{")
            f.lines[-1] = f.lines[-1].replace(f"{found} =", f"{found}:2 =")
            inner = packed_along(reader(), "%low0", "%high0", panel)
            f.line(f"scf.yield {inner}#0, {inner}#1 : {ivec}, {ivec}")
            f.line("} else {")
            inner = choose(n + 1)
            f.line(f"scf.yield {inner}#0, {inner}#1 : {ivec}, {ivec}")
            f.line("}")
            return found

        found = choose(0)
        with f.loop("%count", "%size") as u:
            place = f.at(panel, f.i64("muli", u, across))
            code = Code(to.width, "n")
            for part in range(to.parts):
                code.store(zeros, code.address(place, part * to.width))
            f.lines += code.lines
        f.line(f"scf.yield {found}#0, {found}#1 : {ivec}, {ivec}")
    smallest = f.op(f"vector.reduction <minui>, {result}#0 : {ivec} into i32")
    largest = f.op(f"vector.reduction <maxui>, {result}#1 : {ivec} into i32")
    return f.function(smallest, largest)


def _every_other(f: Function, wide: str, width: int) -> str:
    kept = ", ".join(str(n) for n in range(0, width, 2))
    return f.op(f"llvm.shufflevector {wide}, {wide} [{kept}] : vector<{width}xf32>")


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
    result = f.op(
        f"scf.for %u = {f.number(0)} to %count step {f.number(1)} iter_args(%low = {low}, %high = {high}) -> ({ivec}, {ivec}) : i64 {{"
    )
    f.lines[-1] = f.lines[-1].replace(f"{result} =", f"{result}:2 =")
    source, place = f.at("%src", f.fetch("%offsets", "%u")), f.at("%panel", f.i64("muli", "%u", to.step_words))
    code = Code(to.width, "p")
    low, high = "%low", "%high"
    for v in range(to.count):
        raw = code.load(code.address(source, v * to.width))
        low, high = _convert(kernel, "lanes", code, raw, code.address(place, v * to.parts * to.width), low, high)
    f.lines += [*code.lines, f"scf.yield {low}, {high} : {ivec}, {ivec}", "}"]
    with f.loop("%count", "%size") as u:
        place = f.at("%panel", f.i64("muli", u, to.step_words))
        code = Code(to.width, "z")
        for n in range(to.count * to.parts):
            code.store(code.f32(0.0), code.address(place, n * to.width))
        f.lines += code.lines
    smallest = f.op(f"vector.reduction <minui>, {result}#0 : {ivec} into i32")
    largest = f.op(f"vector.reduction <maxui>, {result}#1 : {ivec} into i32")
    return f.function(smallest, largest)


def _convert(kernel: Kernel, side: str, code: Code, raw: str, place: str, low: str, high: str) -> tuple[str, str]:
    """Append the conversion of one vector, the stores of its parts and the update of the range; returns the range."""
    to, conversion = layout(kernel, side), (kernel.row_conversion if side == "rows" else kernel.lane_conversion)
    rounded = emit_round(code, raw, conversion)
    if kernel.limits is not None:
        low, high = magnitude_range(code, code.cast("bitcast", rounded, "f32", "i32"), low, high)
    for part, value in enumerate(emit_parts(code, rounded, to.parts)):
        code.store(value, code.address(place, part * to.width))
    return low, high
