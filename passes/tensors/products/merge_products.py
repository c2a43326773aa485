"""merge-products: contractions of one operand with adjacent slices of another become one, over all of the slices.

The gates of an LSTM, for example: eight products of a few hundred multiply-adds in every step become two. An element of
the result is the same sum in the same order as before, so no bit changes. Where operands are converted by what their
whole tensor shares, contractions stay apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.dialect import fma_of


@dataclass(frozen=True, kw_only=True)
class _Slice:
    """A contraction whose operand `number` is the part of `source` from `start` on along `dim`; the result's is `out`.

    key: what the contractions of a group have in common.
    """

    generic: ir.Operation
    number: int
    source: ir.Value
    dim: int
    out: int
    start: int
    size: int
    key: tuple[object, ...]


def merge_products(module: ir.Operation) -> None:
    """Make contractions of one operand with adjacent slices of another one contraction over all of the slices."""
    groups: dict[tuple[object, ...], list[_Slice]] = {}
    with module.context:
        for generic in linalg.operations(module, "linalg.generic"):
            candidate = _find(generic)
            if candidate is not None:
                groups.setdefault(candidate.key, []).append(candidate)
        for group in groups.values():
            ordered = sorted(group, key=lambda s: s.start)
            while ordered:
                count = 1
                while count < len(ordered) and ordered[count].start == ordered[count - 1].start + ordered[0].size:
                    count += 1
                run, ordered = ordered[:count], ordered[count:]
                if count > 1:
                    _merge(run)


def _find(generic: ir.Operation) -> _Slice | None:
    if not linalg.contracts(generic) or linalg.input_count(generic) != 2 or len(generic.results) != 1:
        return None
    operations = (op.operation for op in linalg.body(generic).operations)
    if any(op.name == "numc.fma" and fma_of(op).shares_tensor for op in operations):
        return None
    fill = _made_here(generic.operands[2])
    maps = linalg.indexing_maps(generic)
    kinds = linalg.iterator_types(generic)
    if fill is None or any(not isinstance(e, ir.AffineDimExpr) for e in maps[2].results):
        return None
    outs = [ir.AffineDimExpr(e).position for e in maps[2].results]
    for number in (1, 0):
        other, value = generic.operands[1 - number], generic.operands[number]
        cut = _cut(value)
        if cut is None:
            continue
        source, dim, start, size = cut
        expr = maps[number].results[dim]
        if not isinstance(expr, ir.AffineDimExpr) or kinds[expr.position] != "parallel":
            continue
        uses = [sum(expr.position in dims for dims in _dims(maps[n])) for n in (number, 1 - number)]
        if uses == [1, 0] and expr.position in outs:
            body = linalg.body(generic)
            steps = tuple((op.name, *_attributes(op)) for op in (o.operation for o in body.operations))
            flow = tuple(tuple(_origin(v, body) for v in op.operands) for op in body.operations)
            shape = str(generic.results[0].type)
            key = (generic.block, other, source, number, dim, size, *maps, *kinds, fill, steps, flow, shape)
            return _Slice(
                generic=generic,
                number=number,
                source=source,
                dim=dim,
                out=outs.index(expr.position),
                start=start,
                size=size,
                key=key,
            )
    return None


def _dims(map_: ir.AffineMap) -> list[set[int]]:
    """The loops that each result of a map depends on; all of them where it is not linear."""
    linear_forms = [linalg.linear(e) for e in map_.results]
    return [set(range(map_.n_dims)) if x is None else set(x[0]) for x in linear_forms]


def _attributes(op: ir.Operation) -> list[tuple[str, str]]:
    return sorted((name, str(op.attributes[name])) for name in op.attributes)


def _origin(value: ir.Value, body: ir.Block) -> tuple[str, int]:
    """Where a body takes a value from, in words that mean the same in an equal body."""
    if isinstance(value.owner, ir.Block):
        return "argument", ir.BlockArgument(value).arg_number
    ops = [op.operation for op in body.operations]
    owner = value.owner.operation
    return ("operation", ops.index(owner)) if owner in ops else ("outside", hash(value))


def _made_here(init: ir.Value) -> str | None:
    """The constant that a fresh tensor is filled with by a linalg.generic, as text."""
    fill = linalg.filled_with(init)
    if fill is None or init.owner.name != "linalg.generic":
        return None
    room = init.owner.operands[-1]
    return fill if not isinstance(room.owner, ir.Block) and room.owner.name == "tensor.empty" else None


def _cut(value: ir.Value) -> tuple[ir.Value, int, int, int] | None:
    """Source, dimension, start and size of a slice that is a part of a static tensor along one dimension."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "tensor.extract_slice":
        return None
    op = value.owner.operation
    source, source_type = op.operands[0], ir.RankedTensorType(op.operands[0].type)
    offsets, sizes, strides = (
        list(ir.DenseI64ArrayAttr(op.attributes[f"static_{n}"])) for n in ("offsets", "sizes", "strides")
    )
    if len(op.operands) != 1 or not source_type.has_static_shape or set(strides) != {1}:
        return None
    if ir.RankedTensorType(value.type).rank != source_type.rank:
        return None
    cut = [d for d in range(source_type.rank) if sizes[d] != source_type.shape[d]]
    if len(cut) != 1:
        return None
    (dim,) = cut
    return source, dim, offsets[dim], sizes[dim]


def _merge(run: list[_Slice]) -> None:
    """Replace the contractions of `run`, whose slices are adjacent and in order."""
    first, count = run[0], len(run)
    start = min((s.generic for s in run), key=_position)
    with ir.InsertionPoint(start), start.location:
        whole = ir.RankedTensorType(first.source.type)
        wide = list(whole.shape)
        wide[first.dim] = first.size * count
        offsets = [0] * whole.rank
        offsets[first.dim] = first.start
        operand = _slice(first.source, offsets, wide, [])
        out = start.operands[2].owner.operation
        empty = out.operands[-1].owner.operation
        part_type = ir.RankedTensorType(start.results[0].type)
        shape = list(part_type.shape)
        shape[first.out] = shape[first.out] * count
        result = ir.RankedTensorType.get(shape, part_type.element_type)
        room = ir.Operation.create("tensor.empty", results=[result], operands=list(empty.operands)).results[0]
    filled = _clone(out, start, [*list(out.operands)[:-1], room], result)
    operands = list(start.operands)
    operands[first.number], operands[2] = operand, filled.results[0]
    product = _clone(start, start, operands, result)
    for n, each in enumerate(run):
        with ir.InsertionPoint(start), each.generic.location:
            offsets = [0] * part_type.rank
            offsets[first.out] = n * first.size
            part = _slice(product.results[0], offsets, list(part_type.shape), list(empty.operands))
        each.generic.results[0].replace_all_uses_with(part)
    for each in run:
        operands = list(each.generic.operands)
        each.generic.erase()
        linalg.erase_unused(*operands)


def _position(op: ir.Operation) -> int:
    return [o.operation for o in op.block.operations].index(op)


def _clone(source: ir.Operation, at: ir.Operation, operands: list[ir.Value], result: ir.Type) -> ir.Operation:
    new = linalg.with_operands(source, operands, linalg.indexing_maps(source), result)
    new.move_before(at)
    return new


def _slice(source: ir.Value, offsets: list[int], sizes: list[int], dynamic: list[ir.Value]) -> ir.Value:
    source_type = ir.RankedTensorType(source.type)
    result = ir.RankedTensorType.get(sizes, source_type.element_type)
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get(offsets),
        "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * source_type.rank),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(dynamic), 0]),
    }
    return ir.Operation.create(
        "tensor.extract_slice", results=[result], operands=[source, *dynamic], attributes=attributes
    ).results[0]
