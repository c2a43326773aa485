"""Operands that were padded with zeros: a depthwise convolution pads one plane at a time, where it reads it.

Padding a whole tensor first costs as much memory traffic as the convolution itself. What a plane is, and the code that
makes one, is in plane.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.views import buffers
from numc.passes.kernels.tasks.plane import Plane
from numc.passes.plan.contraction import Found, Operand, find, size_of
from numc.passes.plan.fusion import between, overwrites, written

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


def padded(found: Found) -> Padded | None:
    """The padding with zeros of the operand of the lanes, if by a copy into a part, for this contraction alone."""
    buffer, block = found.lanes.value, found.generic.block
    if isinstance(buffer.owner, ir.Block) or buffer.owner.name != "memref.alloc" or linalg.uses(buffer) != 4:
        return None
    users = {use.owner.operation.name: use.owner.operation for use in buffer.uses if use.owner != found.generic}
    if users.keys() != {"memref.subview", "linalg.generic", "memref.dealloc"} or buffer.owner.operation.block != block:
        return None
    fill, view = users["linalg.generic"], users["memref.subview"]
    if linalg.uses(view.results[0]) != 1 or not linalg.fills_zero(fill):
        return None
    copy = next(iter(view.results[0].uses)).owner.operation
    if copy.name != "memref.copy" or copy.operands[1] != view.results[0]:
        return None
    plane = _plane(found, view, copy.operands[0])
    ops = (buffer.owner.operation, fill, view, copy, users["memref.dealloc"])
    return None if plane is None else Padded(copy.operands[0], plane, ops)


@dataclass(frozen=True, kw_only=True)
class _Image:
    """A tensor with zeros around it: allocation, fill with zeros, free, views of the part inside, readers of the whole.

    writer: what writes the part inside first, and all of it. alone: whether nothing else writes or reads only that.
    """

    alloc: ir.Operation
    fill: ir.Operation
    free: ir.Operation
    views: tuple[ir.Operation, ...]
    readers: tuple[ir.Operation, ...]
    writer: ir.Operation
    alone: bool


def pad_apart(lanes: ir.Value, takes: Callable[[Found], bool]) -> tuple[ir.Operation, ...]:
    """Let all contractions that read padded `lanes` copy the image into zeros of their own, right before.

    What is computed in place, into the padded operand, is then computed into a buffer without padding. Returns these
    contractions: none unless each of them can do it plane by plane and `takes` says that its kernel does.
    """
    image = _image(lanes)
    readers = [] if image is None else [f for op in image.readers if (f := find(op)) is not None]
    if image is None or len(readers) < len(image.readers):
        return ()
    if not all(_has_planes(found, image) and takes(found) for found in readers):
        return ()
    source = _copied(image)
    if source is None or any(_plane(found, image.views[0], source) is None for found in readers):
        source = _without_padding(image)
    else:
        image.writer.erase()
        image.free.erase()
    for reader in image.readers:
        _copy_before(reader, source, image)
    for op in (*image.views, image.fill, image.alloc):
        op.erase()
    return image.readers


def _has_planes(found: Found, image: _Image) -> bool:
    """Whether a reader of a padded tensor can pad one plane after the other, and there are some."""
    planes, whole = size_of(found, found.shape.batch), image.alloc.results[0]
    if planes is None or planes < _LEAST_PLANES or found.lanes.value != whole or found.rows.value == whole:
        return False
    return _plane(found, image.views[0]) is not None


def _image(buffer: ir.Value) -> _Image | None:
    """The image that a padded tensor is, if contractions alone read the whole of it."""
    if isinstance(buffer.owner, ir.Block) or buffer.owner.name != "memref.alloc":
        return None
    alloc = buffer.owner.operation
    roles: dict[str, list[ir.Operation]] = {"fill": [], "view": [], "reader": [], "free": []}
    for use in buffer.uses:
        user = use.owner.operation
        role = {"memref.subview": "view", "memref.dealloc": "free"}.get(user.name, "")
        if user.name == "linalg.generic":
            reads = use.operand_number < linalg.input_count(user)
            role = ("reader" if linalg.contracts(user) else "") if reads else "fill" if linalg.fills_zero(user) else ""
        if not role or user.block != alloc.block:
            return None
        roles[role].append(user)
    fills, views, readers, frees = roles.values()
    slices = {str([view.attributes[f"static_{name}"] for name in ("offsets", "sizes", "strides")]) for view in views}
    if not len(fills) == len(frees) == len(slices) == 1 or not readers:
        return None
    uses = [use.owner.operation for view in views for use in view.results[0].uses]
    if any(op.name not in ("linalg.generic", "memref.copy") or op.block != alloc.block for op in uses):
        return None
    first = next((op for op in uses if not any(_is_before(other, op) for other in uses)), None)
    if first is None or not _writes(first, [view.results[0] for view in views]):
        return None
    ordered = _is_before(fills[0], first) and all(_is_before(first, op) for op in readers)
    return (
        _Image(
            alloc=alloc,
            fill=fills[0],
            free=frees[0],
            views=tuple(views),
            readers=tuple(readers),
            writer=first,
            alone=len(uses) == 1,
        )
        if ordered
        else None
    )


def _copied(image: _Image) -> ir.Value | None:
    """The tensor of which the image is a copy, if it stays what it is until all have read it; then it lives so long."""
    if image.writer.name != "memref.copy" or not image.alone:
        return None
    source: ir.Value = image.writer.operands[0]
    memory = buffers(source)
    meanwhile = between(image.writer, image.free, memory)
    if any(memory & written(op) for op in meanwhile if op.name != "memref.dealloc"):
        return None
    for op in reversed(meanwhile):
        if op.name == "memref.dealloc" and buffers(op.operands[0]) & memory:
            op.move_after(image.free)
    return source


def _without_padding(image: _Image) -> ir.Value:
    """A buffer that takes the place of the image without what is around it."""
    view_type = ir.MemRefType(image.views[0].results[0].type)
    with ir.InsertionPoint(image.alloc), image.alloc.location:
        made = _alloc(ir.MemRefType.get(view_type.shape, view_type.element_type)).results[0]
    for view in image.views:
        view.results[0].replace_all_uses_with(made)
    image.free.operands[0] = made
    return made


def _copy_before(reader: ir.Operation, source: ir.Value, image: _Image) -> None:
    """Let a reader of an image read a copy of its own."""
    whole = image.alloc.results[0]
    with ir.InsertionPoint(reader), reader.location:
        own = _alloc(whole.type).results[0]
        fill, view = image.fill.clone(), image.views[0].clone()
        ir.Operation.create("memref.copy", operands=[source, view.results[0]])
        ir.Operation.create("memref.dealloc", operands=[own]).move_after(reader)
    for op in (fill, view, reader):
        for n, operand in enumerate(op.operands):
            if operand == whole:
                op.operands[n] = own


def _alloc(kind: ir.Type) -> ir.Operation:
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
        "alignment": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 64),
    }
    return ir.Operation.create("memref.alloc", results=[kind], attributes=attributes)


def _is_before(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether both are in one block, in this order."""
    return one.block == other.block and bool(one.is_before_in_block(other))


def _writes(op: ir.Operation, views: Sequence[ir.Value]) -> bool:
    """Whether `op` writes every element of an image, and reads none."""
    if not overwrites(op):
        return False
    *read, target = op.operands
    return target in views and not any(value in views for value in read)


def _plane(found: Found, view: ir.Operation, source: ir.Value | None = None) -> Plane | None:
    """The planes of a padded operand, whose part inside is a copy of `source`, by default of what is row by row."""
    lanes_type = ir.MemRefType(found.lanes.value.type)
    low, inner, steps = (tuple(view.attributes[f"static_{n}"]) for n in ("offsets", "sizes", "strides"))
    if not lanes_type.has_static_shape or ir.MemRefType(view.results[0].type).shape != list(inner):
        return None
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    strides = [math.prod(inner[n + 1 :]) for n in range(len(inner))]
    if source is not None:
        strides = ir.MemRefType(source.type).get_strides_and_offset()[0]
    sizes = tuple(lanes_type.shape)
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
    plane = Plane(
        sizes=of_plane[0], inner=of_plane[1], low=of_plane[2], strides=of_plane[3], lanes=lanes, taps=tuple(steps_of_k)
    )
    fits = plane.words <= _MOST_WORDS and plane.strides[-1] == 1
    return plane if fits and lanes and lanes[-1][1] in (1, 2) else None
