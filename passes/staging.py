# ruff: noqa: E501 - the long lines are MLIR text
"""Zero-padded planes made in cache: a depthwise convolution pads one channel at a time, where it reads it.

Padding a whole tensor first costs as much memory traffic as the convolution itself. A plane is the part of the operand
that one batch of the contraction reads: all of its dimensions but the batch. It is converted on the way, and its range of
magnitudes is known before the first step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import walk
from numc.passes.code import Function
from numc.passes.kernels import Kernel, magnitude_range
from numc.passes.neighbours import before, root, written
from numc.passes.recognise import Found, Operand, size_of
from numc.passes.rounding import emit_round
from numc.passes.segments import lanes_below

# A plane stays in the cache of its core; with fewer planes than these, threads want parts of one.
_MOST_WORDS = 1 << 16
_LEAST_PLANES = 16


@dataclass(frozen=True)
class Plane:
    """A plane of `sizes`, zeros but for a part of `inner` elements from `low` on; `strides`: of these in the source."""

    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    low: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def words(self) -> int:
        """Its size, in f32 numbers."""
        return math.prod(self.sizes)

    @property
    def pitches(self) -> tuple[int, ...]:
        """Its strides, row by row."""
        return tuple(math.prod(self.sizes[n + 1 :]) for n in range(len(self.sizes)))


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


def padded(found: Found) -> Padded | None:
    """How the operand of the lanes was padded with zeros, if for nothing but this contraction, plane by plane."""
    buffer = found.lanes.value
    if isinstance(buffer.owner, ir.Block) or buffer.owner.name != "memref.alloc":
        return None
    planes = size_of(found, found.shape.batch)
    if planes is None or planes < _LEAST_PLANES:
        return None
    users = [use.owner.operation for use in buffer.uses]
    fill, view, rest = None, None, []
    for op in users:
        if op.name == "memref.subview":
            view = op if view is None else None
        elif op.name == "linalg.generic" and op != found.generic:
            fill = op if fill is None else None
        elif op != found.generic:
            rest.append(op)
    if fill is None or view is None or len(users) != 4 or [op.name for op in rest] != ["memref.dealloc"]:
        return None
    copies = [use.owner.operation for use in view.results[0].uses]
    if len(copies) != 1 or copies[0].name != "memref.copy" or copies[0].operands[1] != view.results[0]:
        return None
    copy = copies[0]
    earlier = before(found.generic)
    if copy not in earlier or fill not in before(copy) or walk.fills_with(fill) != "0.000000e+00 : f32":
        return None
    source, plane = copy.operands[0], _plane(found, buffer, view, copy.operands[0])
    between = earlier[: earlier.index(copy)]
    if plane is None or any(root(source) in written(op) for op in between if op.name != "memref.dealloc"):
        return None
    for op in between:  # the source must live until the contraction runs
        if op.name == "memref.dealloc" and root(op.operands[0]) == root(source):
            op.move_after(found.generic)
    return Padded(source, plane, (*rest, copy, view, fill, buffer.owner.operation))


def _plane(found: Found, buffer: ir.Value, view: ir.Operation, source: ir.Value) -> Plane | None:
    kinds = [ir.MemRefType(v.type) for v in (buffer, source)]
    if not all(k.has_static_shape for k in kinds) or kinds[0].rank != kinds[1].rank:
        return None
    low, inner, steps = (tuple(view.attributes[f"static_{n}"]) for n in ("offsets", "sizes", "strides"))
    sizes, strides = tuple(kinds[0].shape), tuple(kinds[1].get_strides_and_offset()[0])
    if tuple(kinds[1].shape) != inner or any(n != 1 for n in steps):
        return None
    is_batch = [bool(set(c) & set(found.shape.batch)) for c, _ in found.lanes.places]
    if any(
        is_batch[n] and (sizes[n] != inner[n] or set(c) - set(found.shape.batch))
        for n, (c, _) in enumerate(found.lanes.places)
    ):
        return None
    dims = [n for n in range(len(sizes)) if not is_batch[n]]
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    plane = Plane(*(tuple(of[n] for n in dims) for of in (sizes, inner, low, strides)))
    if not dims or plane.words > _MOST_WORDS or plane.strides[-1] != 1 or dynamic in strides:
        return None
    return plane


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
    with f.carrying(f"%row = {f.number(0)} to {f.number(rows)} step {f.number(1)}", kept, ivec) as found:
        source, target = _row_starts(f, plane)

        def vector(place: str | int, low: str, high: str, mask: str) -> tuple[str, str]:
            at, to = f.at(source, place), f.at(target, place)
            with f.part(width) as code:
                value = emit_round(code, code.load(at, mask), kernel.lane_conversion)
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


def _row_starts(f: Function, plane: Plane) -> tuple[str, str]:
    """Where ``%row`` begins in the source and in the plane; rows are counted through all dimensions but the last."""
    rest: str = "%row"
    source, target = f.number(0), f.number(sum(n * p for n, p in zip(plane.low, plane.pitches, strict=True)))
    for n in reversed(range(len(plane.inner) - 1)):
        index, rest = f.i64("remui", rest, plane.inner[n]), f.i64("divui", rest, plane.inner[n])
        source = f.i64("addi", source, f.i64("muli", index, plane.strides[n]))
        target = f.i64("addi", target, f.i64("muli", index, plane.pitches[n]))
    return f.at("%source", source), f.at("%plane", target)
