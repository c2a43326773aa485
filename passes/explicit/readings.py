"""The reading of an argument by a program: the format that holds all that operations need of it, or why none does.

An operation that rounds elements needs no more than their codes. A contraction whose operands have groups needs no more
than the codes of groups along its reduction, if the operand is the whole argument and these groups lie in one of its
dimensions. What asks which elements are positive needs a bit for each, which codes hold, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.numerics.formats import Format
from numc.numerics.groups import GroupConversion
from numc.numerics.stored import IN_BITS, NOT_AT_MOST_ZERO, POSITIVE, along, has_codes
from numc.passes import linalg
from numc.passes.dialect import contracted, conversion_of, varies

# The dimensions of the argument, but for those of size 1, that a dimension of a tensor consists of, each with its size.
_Dim = tuple[tuple[int, int], ...]
# Those of a tensor, None for one that is another; None for a part of the argument.
_Dims = tuple[_Dim | None, ...] | None
_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice", "tensor.insert_slice")
# x <= 0 and x > 0 are the same for x and for its code; x < 0 is not where a negative number rounds to zero.
_PREDICATES = {
    int(arith.CmpFPredicate.OGT): POSITIVE,
    int(arith.CmpFPredicate.ULE): POSITIVE,
    int(arith.CmpFPredicate.OLE): NOT_AT_MOST_ZERO,
    int(arith.CmpFPredicate.UGT): NOT_AT_MOST_ZERO,
}
_OPEN = "read as float32 by "


@dataclass(frozen=True)
class Reading:
    """The reading of an argument by operations: the format that holds all they need of it, or why there is none."""

    format: str
    why: str


def readings(module: ir.Operation, arguments: list[int]) -> dict[int, Reading]:
    """Return how these arguments of @main are read, float32 tensors of a module in which all arithmetic is explicit."""
    block = linalg.main(module).regions[0].blocks[0]
    return {number: reading_of(block.arguments[number]) for number in arguments}


def reading_of(tensor: ir.Value) -> Reading:
    """Return how a tensor of float32 is read."""
    read_formats: set[str] = set()
    sizes = ir.RankedTensorType(tensor.type).shape
    dims = tuple(((d, size),) if size != 1 else () for d, size in enumerate(sizes))
    if (reader := _readers(tensor, read_formats, dims)) is not None:
        return Reading("", reader)
    formats = read_formats - set(IN_BITS) or read_formats
    if len(formats) > 1:
        return Reading("", f"read in several formats: {', '.join(sorted(formats))}")
    if not read_formats:
        return Reading("", "not read")
    return Reading(next(iter(formats)), "")


def _readers(tensor: ir.Value, found: set[str], dims: _Dims) -> str | None:
    """Add the formats in which a tensor is read to `found`; return who reads it otherwise, or None."""
    for use in tensor.uses:
        owner, number = use.owner.operation, use.operand_number
        if owner.name in _VIEWS and number == 0:
            reader = _readers(owner.results[0], found, _viewed(owner, dims))
        elif owner.name == "linalg.generic" and number < linalg.input_count(owner):
            reader = _body_readers(owner, number, linalg.body(owner).arguments[number], found, dims)
        elif owner.name == "tensor.dim":
            continue
        else:
            reader = _OPEN + (linalg.name_of(owner) or owner.name)
        if reader is not None:
            return reader
    return None


def _has_codes(fmt: Format) -> bool:
    return fmt.parts == 1 and fmt.bits <= 16 and fmt.precision > 1 and fmt.is_usual and fmt.has_nan


def _body_readers(generic: ir.Operation, number: int, element: ir.Value, found: set[str], dims: _Dims) -> str | None:
    for use in element.uses:
        owner = use.owner.operation
        if owner.name == "linalg.yield":
            copied = _copied(generic, number, use.operand_number, dims)
            reader = _readers(generic.results[use.operand_number], found, copied)
            if reader is not None:
                return reader
        elif owner.name == "arith.extf":
            reader = _body_readers(generic, number, owner.results[0], found, None)
            if reader is not None:
                return reader
        elif owner.name == "numc.round" and linalg.is_f32(element) and not varies(owner):
            to = conversion_of(owner)
            if not _has_codes(to.format):
                return f"rounded to {to}, whose codes have {to.format.bits} bits"
            found.add(str(to))
        elif owner.name == "numc.round":
            return "rounded anew in every execution"
        elif owner.name == "arith.cmpf" and use.operand_number == 0 and (asked := _asked(owner)):
            found.add(asked)
        elif owner.name == "numc.fma" and (whole := contracted(generic)) is not None:
            operand, name = (*whole.fma.grouped, None)[use.operand_number], linalg.name_of(generic)
            if operand is None:
                return _OPEN + (name or generic.name)
            axes = _axes(generic, number, operand, dims) if has_codes(operand) else "which has no codes"
            if isinstance(axes, str):
                return f"converted to {operand} by {name or generic.name}, {axes}"
            found.add(along(operand, axes))
        else:
            return _OPEN + (linalg.name_of(generic) or generic.name)
    return None


def _viewed(view: ir.Operation, dims: _Dims) -> _Dims:
    """The dimensions of a reshape, or of a tensor that is padded with zeros; None for a part of a tensor."""
    view_type = ir.RankedTensorType(view.results[0].type)
    if dims is None or view.name == "tensor.extract_slice":
        return None
    if view.name == "tensor.cast":
        return dims
    if view.name == "tensor.insert_slice":
        return (None,) * view_type.rank if linalg.is_zero(view.operands[1]) else None
    groups = [[ir.IntegerAttr(d).value for d in group] for group in ir.ArrayAttr(view.attributes["reassociation"])]
    if view.name == "tensor.collapse_shape":
        parts = [[dims[d] for d in many] for many in groups]
        return tuple(None if None in each else sum((p for p in each if p), ()) for each in parts)
    return tuple(
        dim
        for source_dim, many in zip(dims, groups, strict=True)
        for dim in _split(source_dim, [view_type.shape[d] for d in many])
    )


def _split(dim: _Dim | None, sizes: list[int]) -> list[_Dim | None]:
    """The dimensions of these sizes into which a dimension is split."""
    left = list(dim or ())
    dims: list[_Dim | None] = []
    for size in sizes:
        if size == 1:
            dims.append(())
        elif left and left[0][1] == size:
            dims.append((left.pop(0),))
        else:
            return [None] * len(sizes) if len(sizes) > 1 else [dim]
    return dims


def _copied(generic: ir.Operation, number: int, result: int, dims: _Dims) -> _Dims:
    """The dimensions of a copy of an input; None if it may leave elements out."""
    maps, loops = linalg.indexing_maps(generic), linalg.loop_sizes(generic)
    read, made = maps[number], maps[linalg.input_count(generic) + result]
    sizes = ir.RankedTensorType(generic.operands[number].type).shape
    if dims is None or not made.is_permutation:
        return None
    where: dict[int, _Dim | None] = {d: () for d, size in enumerate(loops) if size == 1}
    for d, (expr, size) in enumerate(zip(read.results, sizes, strict=True)):
        if isinstance(expr, ir.AffineDimExpr) and loops[expr.position] == size:
            where[expr.position] = dims[d]
        elif size != 1:
            return None
    return tuple(where.get(ir.AffineDimExpr(e).position) for e in made.results)


def _axes(generic: ir.Operation, number: int, to: GroupConversion, dims: _Dims) -> tuple[int, ...] | str:
    """The dimensions of the argument that groups of an operand lie along, or why there are none; () without groups."""
    if dims is None:
        return "of which it is a part"
    if to.format.group is None:
        return ()
    kinds, sizes = linalg.iterator_types(generic), linalg.loop_sizes(generic)
    places: dict[int, _Dim | None] = {}
    for dim, expr in zip(dims, linalg.indexing_maps(generic)[number].results, strict=True):
        factors, _ = linalg.linear(expr) or ({}, 0)
        loops = [d for d in factors if sizes[d] != 1]
        if len(loops) > 1:
            return "in windows, so that an element is in several groups"
        for d in loops:  # neither backwards nor along a diagonal
            places[d] = dim if factors[d] > 0 and d not in places else None
    axes: list[int] = []
    for d, (iterator, size) in enumerate(zip(kinds, sizes, strict=True)):
        if iterator != "reduction" or size == 1:
            continue
        dim = places.get(d)
        if dim is None:
            return "in groups that do not lie along its dimensions"
        if prod(n for _, n in dim) != size:
            return "some of whose elements it does not read"
        axes += [axis for axis, _ in dim]
    return tuple(axes) if axes else "in groups of one element"


def _asked(op: ir.Operation) -> str:
    """The bit of an element for which a comparison asks; "" if it compares in another way, or not with zero."""
    zero = linalg.maker(op.operands[1])
    if zero is None or zero.name != "arith.constant" or ir.FloatAttr(zero.attributes["value"]).value != 0:
        return ""
    return _PREDICATES.get(ir.IntegerAttr(op.attributes["predicate"]).value, "")
