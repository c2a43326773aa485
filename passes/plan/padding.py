# ruff: noqa: E501 - the long lines are MLIR text
"""Zero-padded planes made in cache: a depthwise convolution pads one channel at a time, where it reads it.

Padding a whole tensor first costs as much memory traffic as the convolution itself. A plane is the part of the operand
that one batch of the contraction reads: all of its dimensions but the batch. It is converted on the way, and its range of
magnitudes is known before the first step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch_mlir import ir

from numc.passes import linalg
from numc.passes.kernels.builder import Function
from numc.passes.kernels.micro_kernel import Kernel, magnitude_range
from numc.passes.kernels.packing.segments import lanes_below
from numc.passes.kernels.values.rounding import emit_round
from numc.passes.plan.contraction import Found, Operand, size_of, sizes_of
from numc.passes.plan.fusion import before, root, written

IntArray = npt.NDArray[np.int64]

# A plane stays in the cache of its core; with fewer planes than these, threads want parts of one.
_MOST_WORDS = 1 << 16
_LEAST_PLANES = 16


@dataclass(frozen=True)
class Plane:
    """A plane of `sizes`, zeros but for a part of `inner` elements from `low` on; `strides`: of these in the source.

    lanes: how many there are along each of their dimensions, and how far apart in the plane; taps: where the steps of k
    are, from a lane.
    """

    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    low: tuple[int, ...]
    strides: tuple[int, ...]
    lanes: tuple[tuple[int, int], ...]
    taps: tuple[int, ...]

    @property
    def words(self) -> int:
        """Its size, in f32 numbers."""
        return math.prod(self.sizes)

    @property
    def rows(self) -> int:
        """Rows of lanes, through all of their dimensions but the last."""
        return math.prod(size for size, _ in self.lanes[:-1])

    @property
    def pitches(self) -> tuple[int, ...]:
        """Its strides, row by row."""
        return tuple(math.prod(self.sizes[n + 1 :]) for n in range(len(self.sizes)))

    def sources(self, places: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Where the elements at `places` come from, and which of them are not padding."""
        at = np.stack([places // p % n for p, n in zip(self.pitches, self.sizes, strict=True)], axis=-1) - self.low
        inside = np.all((at >= 0) & (at < self.inner), axis=-1)
        return np.where(inside, at @ np.array(self.strides), 0), inside


@dataclass(frozen=True)
class Padded:
    """The operand of the lanes before it was padded, how its planes are, and the operations that padded it."""

    source: ir.Value
    plane: Plane
    ops: tuple[ir.Operation, ...]

    def operand(self, found: Found) -> Operand:
        """The source in place of the padded operand: addressed alike, by sizes and strides of a plane."""
        return Operand(self.source, found.lanes.places, found.lanes.conversion)

    def erase(self) -> None:
        """Drop the padding: the contraction that read the padded operand is gone."""
        for op in self.ops:
            op.erase()


def unpadded(found: Found) -> Padded | None:
    """How the operand of the lanes was padded with zeros, if for nothing but this contraction, plane by plane.

    What computed elements in place, into the padded operand, then computes them into a buffer of their own.
    """
    buffer = found.lanes.value
    planes = size_of(found, found.shape.batch)
    if isinstance(buffer.owner, ir.Block) or buffer.owner.name != "memref.alloc":
        return None
    if planes is None or planes < _LEAST_PLANES:
        return None
    users = {use.owner.operation.name: use.owner.operation for use in buffer.uses if use.owner != found.generic}
    if linalg.uses(buffer) != 4 or users.keys() != {"memref.subview", "linalg.generic", "memref.dealloc"}:
        return None
    fill, view = users["linalg.generic"], users["memref.subview"]
    if linalg.uses(view.results[0]) != 1 or not linalg.fills_zero(fill):
        return None
    writer = next(iter(view.results[0].uses)).owner.operation
    earlier = before(found.generic)
    if writer not in earlier or fill not in before(writer) or not _writes(writer, view.results[0]):
        return None
    between = earlier[: earlier.index(writer)]
    copied = writer.operands[0] if writer.name == "memref.copy" else None
    strides = None if copied is None else ir.MemRefType(copied.type).get_strides_and_offset()[0]
    plane = _plane(found, ir.MemRefType(buffer.type), view, strides)
    if plane is None or (copied is not None and any(root(copied) in written(op) for op in between)):
        return None
    padding = (users["memref.dealloc"], view, fill, buffer.owner.operation)
    if copied is None:
        return Padded(_own_buffer(writer, found.generic), plane, padding)
    for op in between:  # the source must live until the contraction runs
        if op.name == "memref.dealloc" and root(op.operands[0]) == root(copied):
            op.move_after(found.generic)
    return Padded(copied, plane, (writer, *padding))


def _writes(op: ir.Operation, target: ir.Value) -> bool:
    """Whether `op` writes every element of `target`, and reads none."""
    if op.name == "memref.copy":
        return bool(op.operands[1] == target)
    if op.name != "linalg.generic" or linalg.reduces(op):
        return False
    inputs = linalg.input_count(op)
    alone = len(op.operands) == inputs + 1 and linalg.is_unused(linalg.body(op).arguments[inputs])
    whole = bool(linalg.indexing_maps(op)[inputs].is_permutation)
    return alone and whole and op.operands[inputs] == target


def _own_buffer(writer: ir.Operation, reader: ir.Operation) -> ir.Value:
    """Let `writer` write a buffer that lives until `reader` has run."""
    number = len(writer.operands) - 1
    kind = ir.MemRefType.get(ir.MemRefType(writer.operands[number].type).shape, ir.F32Type.get())
    none = ir.DenseI32ArrayAttr.get([0, 0])
    with ir.InsertionPoint(writer), writer.location:
        alignment = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64)
        attributes = {"operandSegmentSizes": none, "alignment": alignment}
        made = ir.Operation.create("memref.alloc", results=[kind], attributes=attributes).results[0]
        ir.Operation.create("memref.dealloc", operands=[made]).move_after(reader)
    writer.operands[number] = made
    return made


def _plane(found: Found, kind: ir.MemRefType, view: ir.Operation, strides: list[int] | None) -> Plane | None:
    """The planes of a padded operand; `strides`: those of the elements in the source, row by row if None."""
    low, inner, steps = (tuple(view.attributes[f"static_{n}"]) for n in ("offsets", "sizes", "strides"))
    if not kind.has_static_shape or ir.MemRefType(view.results[0].type).shape != list(inner):
        return None
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    strides = [math.prod(inner[n + 1 :]) for n in range(len(inner))] if strides is None else strides
    sizes = tuple(kind.shape)
    if any(n != 1 for n in steps) or dynamic in (*low, *inner, *strides):
        return None
    batch, known = set(found.shape.batch), sizes_of(found)
    whole = [n for n, (coefficients, _) in enumerate(found.lanes.places) if set(coefficients) & batch]
    if any(sizes[n] != inner[n] or set(found.lanes.places[n][0]) - batch for n in whole):
        return None
    dims = [n for n in range(len(sizes)) if n not in whole]
    if not dims or any(d not in known for d in (*found.shape.lanes, *found.shape.k)):
        return None
    pitches = [math.prod(sizes[m] for m in dims if m > n) for n in dims]

    def pitch(d: int) -> int:
        return sum(p * found.lanes.places[n][0].get(d, 0) for n, p in zip(dims, pitches, strict=True))

    taps = [sum(p * found.lanes.places[n][1] for n, p in zip(dims, pitches, strict=True))]
    for d in found.shape.k:
        taps = [at + n * pitch(d) for at in taps for n in range(known[d])]
    lanes = tuple((known[d], pitch(d)) for d in found.shape.lanes)
    of_plane = [tuple(values[n] for n in dims) for values in (sizes, inner, low, strides)]
    plane = Plane(of_plane[0], of_plane[1], of_plane[2], of_plane[3], lanes, tuple(taps))
    fits = plane.words <= _MOST_WORDS and plane.strides[-1] == 1
    return plane if fits and lanes and lanes[-1][1] in (1, 2) else None


def stage_text(kernel: Kernel, plane: Plane) -> str:
    """The function ``@driver_stage(source, plane)``, which fills the part of a plane that is not padding.

    Returns the smallest non-zero magnitude less one and the largest one, as encodings.
    """
    width = kernel.tile.width
    f = Function("driver_stage", {"%source": "!llvm.ptr", "%plane": "!llvm.ptr"}, "i32, i32")
    ivec = f"vector<{width}xi32>"
    with f.part(width) as code:
        kept = {"%low": code.int(0xFFFFFFFF), "%high": code.int(0)}
    length = plane.inner[-1]
    rows = math.prod(plane.inner[:-1])
    whole = length - length % width
    start = sum(n * pitch for n, pitch in zip(plane.low, plane.pitches, strict=True))
    with f.carrying(f"%row = {f.number(0)} to {f.number(rows)} step {f.number(1)}", kept, ivec) as found:
        outer, starts = plane.inner[:-1], []
        for base, strides in ((f.at("%source", 0), plane.strides), (f.at("%plane", start), plane.pitches)):
            starts.append(f.at(base, offset_of(f, "%row", list(zip(outer, strides, strict=False)))))
        source, target = starts

        def vector(place: str | int, low: str, high: str, mask: str) -> tuple[str, str]:
            at, to = f.at(source, place), f.at(target, place)
            with f.part(width) as code:
                value = emit_round(code, code.load(at, mask), kernel.conversion("lanes"))
                if kernel.limits is not None:
                    low, high = magnitude_range(code, code.cast("bitcast", value, "f32", "i32"), low, high)
                code.store(value, to, mask)
            return low, high

        low, high = "%low", "%high"
        if whole:
            bounds = f"%i = {f.number(0)} to {f.number(whole)} step {f.number(width)}"
            with f.carrying(bounds, {"%low_in": low, "%high_in": high}, ivec) as (low, high):
                f.line(f"scf.yield {', '.join(vector('%i', '%low_in', '%high_in', ''))} : {ivec}, {ivec}")
        if whole != length:
            low, high = vector(whole, low, high, lanes_below(f, width, f.number(length - whole)))
        f.line(f"scf.yield {low}, {high} : {ivec}, {ivec}")
    smallest = f.op(f"vector.reduction <minui>, {found[0]} : {ivec} into i32")
    return f.function(smallest, f.op(f"vector.reduction <maxui>, {found[1]} : {ivec} into i32"))


def offset_of(f: Function, number: str, dims: Sequence[tuple[int, int]]) -> str:
    """The offset of combination `number` of indices, the last one fastest; dims: their sizes and strides."""
    total, rest = f.number(0), number
    for size, stride in reversed(dims):
        total = f.i64("addi", total, f.i64("muli", f.i64("remui", rest, size), stride))
        rest = f.i64("divui", rest, size)
    return total
