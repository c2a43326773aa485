"""Operands that were padded with zeros: a depthwise convolution pads one plane at a time, where it reads it.

Padding a whole tensor first costs as much memory traffic as the convolution itself. What a plane is, and the code that
makes one, is in plane.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.views import buffers
from numc.passes.kernels.tasks.plane import Plane
from numc.passes.plan.contraction import Found, Operand, size_of
from numc.passes.plan.fusion import between, written

# A plane stays in the cache of its core; with fewer planes than these, threads want parts of one.
_MOST_WORDS = 1 << 16
_LEAST_PLANES = 16


@dataclass(frozen=True)
class Padded:
    """The operand of the lanes before it was padded, how its planes are, and the operations that pad it, in order.

    The last of them frees the padded operand.
    """

    source: ir.Value
    plane: Plane
    ops: tuple[ir.Operation, ...]

    def operand(self, found: Found) -> Operand:
        """The source in place of the padded operand: addressed alike, by sizes and strides of a plane."""
        return Operand(self.source, found.lanes.places, found.lanes.conversion)


@dataclass(frozen=True)
class _Padding:
    """The operations that pad an operand: allocation, fill with zeros, view of the part inside, who writes it, free.

    readers: what else reads the part inside, such as a sum with what a residual block was given.
    """

    alloc: ir.Operation
    fill: ir.Operation
    view: ir.Operation
    writer: ir.Operation
    free: ir.Operation
    readers: tuple[ir.Operation, ...]

    def plane(self, found: Found) -> Plane | None:
        """How the planes are; a copied source has strides of its own, anything else will be written row by row."""
        copies = self.writer.name == "memref.copy"
        strides = ir.MemRefType(self.writer.operands[0].type).get_strides_and_offset()[0] if copies else None
        return _plane(found, ir.MemRefType(found.lanes.value.type), self.view, strides)

    def padded(self, copy: ir.Operation, plane: Plane) -> Padded:
        return Padded(copy.operands[0], plane, (self.alloc, self.fill, self.view, copy, self.free))


def _padding(found: Found) -> _Padding | None:
    """What pads the operand of the lanes with zeros, if it is padded for nothing but this contraction."""
    buffer = found.lanes.value
    if isinstance(buffer.owner, ir.Block) or buffer.owner.name != "memref.alloc" or linalg.uses(buffer) != 4:
        return None
    users = {use.owner.operation.name: use.owner.operation for use in buffer.uses if use.owner != found.generic}
    if users.keys() != {"memref.subview", "linalg.generic", "memref.dealloc"}:
        return None
    fill, view = users["linalg.generic"], users["memref.subview"]
    uses = [(use.owner.operation, use.operand_number) for use in view.results[0].uses]
    if not linalg.fills_zero(fill) or any(op.name not in ("linalg.generic", "memref.copy") for op, _ in uses):
        return None
    writers = [op for op, number in uses if number >= (1 if op.name == "memref.copy" else linalg.input_count(op))]
    if len(writers) != 1 or [op for op, _ in uses].count(writers[0]) > 1:
        return None
    readers = tuple({op: None for op, _ in uses if op != writers[0]})
    return _Padding(buffer.owner.operation, fill, view, writers[0], users["memref.dealloc"], readers)


def unpadded(found: Found) -> Padded | None:
    """How the operand of the lanes was padded with zeros, if for nothing but this contraction, plane by plane.

    What computed elements in place, into the padded operand, then computes them into a buffer of their own, which all
    others read.
    """
    planes, padding = size_of(found, found.shape.batch), _padding(found)
    if planes is None or planes < _LEAST_PLANES or padding is None:
        return None
    writer = padding.writer
    if not (_is_before(writer, found.generic) and _is_before(padding.fill, writer)):
        return None
    if not _writes(writer, padding.view.results[0]):
        return None
    copied = buffers(writer.operands[0]) if writer.name == "memref.copy" else set()
    if padding.readers and (copied or not all(_is_before(writer, op) for op in padding.readers)):
        return None
    plane, meanwhile = padding.plane(found), between(writer, found.generic, copied)
    if plane is None or any(copied & written(op) for op in meanwhile):
        return None
    if not copied:
        return padding.padded(_own_buffer(padding, found.generic), plane)
    for op in reversed(meanwhile):  # the source must live until the contraction runs
        if op.name == "memref.dealloc" and buffers(op.operands[0]) & copied:
            op.move_after(found.generic)
    return padding.padded(writer, plane)


def padded_in_region(found: Found) -> Padded | None:
    """The padding that a planned region holds, by a copy into a part of the operand of the lanes."""
    padding = _padding(found)
    if padding is None or padding.writer.name != "memref.copy" or padding.alloc.block != found.generic.block:
        return None
    plane = padding.plane(found)
    return None if plane is None else padding.padded(padding.writer, plane)


def _is_before(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether both are in one block, in this order."""
    return one.block == other.block and bool(one.is_before_in_block(other))


def _writes(op: ir.Operation, target: ir.Value) -> bool:
    """Whether `op` writes every element of `target`, and reads none."""
    if op.name == "memref.copy":
        return bool(op.operands[1] == target)
    if op.name != "linalg.generic" or linalg.reduces(op):
        return False
    inputs = linalg.input_count(op)
    alone = len(op.operands) == inputs + 1 and linalg.is_unused(linalg.body(op).arguments[inputs])
    every = bool(linalg.indexing_maps(op)[inputs].is_permutation)
    return alone and every and op.operands[inputs] == target


def _own_buffer(padding: _Padding, generic: ir.Operation) -> ir.Operation:
    """Let the writer write a buffer of its own; returns the copy from there to where `generic` reads it."""
    writer, last = padding.writer, generic
    number = len(writer.operands) - 1
    target = writer.operands[number]
    of_target = ir.MemRefType(target.type)
    kind = ir.MemRefType.get(of_target.shape, of_target.element_type)
    none = ir.DenseI32ArrayAttr.get([0, 0])
    with ir.InsertionPoint(writer), writer.location:
        alignment = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64)
        attributes = {"operandSegmentSizes": none, "alignment": alignment}
        made = ir.Operation.create("memref.alloc", results=[kind], attributes=attributes).results[0]
        for op in padding.readers:
            last = op if _is_before(last, op) else last
            for n, operand in enumerate(op.operands):
                if operand == target:
                    op.operands[n] = made
        ir.Operation.create("memref.dealloc", operands=[made]).move_after(last)
        writer.operands[number] = made
        copy = ir.Operation.create("memref.copy", operands=[made, target])
    copy.move_after(writer)
    return copy


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
    batch, known = set(found.shape.batch), found.sizes
    of_batch = [n for n, (coefficients, _) in enumerate(found.lanes.places) if set(coefficients) & batch]
    if any(sizes[n] != inner[n] or set(found.lanes.places[n][0]) - batch for n in of_batch):
        return None
    dims = [n for n in range(len(sizes)) if n not in of_batch]
    if not dims or any(d not in known for d in (*found.shape.lanes, *found.shape.k)):
        return None
    pitches = [math.prod(sizes[m] for m in dims if m > n) for n in dims]

    def pitch(d: int) -> int:
        return sum(p * found.lanes.places[n][0].get(d, 0) for n, p in zip(dims, pitches, strict=True))

    steps_of_k = [sum(p * found.lanes.places[n][1] for n, p in zip(dims, pitches, strict=True))]
    for d in found.shape.k:
        steps_of_k = [at + n * pitch(d) for at in steps_of_k for n in range(known[d])]
    lanes = tuple((known[d], pitch(d)) for d in found.shape.lanes)
    of_plane = [tuple(values[n] for n in dims) for values in (sizes, inner, low, strides)]
    plane = Plane(of_plane[0], of_plane[1], of_plane[2], of_plane[3], lanes, tuple(steps_of_k))
    fits = plane.words <= _MOST_WORDS and plane.strides[-1] == 1
    return plane if fits and lanes and lanes[-1][1] in (1, 2) else None
