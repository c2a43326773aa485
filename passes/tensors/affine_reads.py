"""affine-reads: a loop that chooses elements by linear functions of its steps reads them through an indexing map.

So are tensors turned around, like the filters of a convolution for the gradient of its input. Through a map the elements
are read without tables of indices and without checks, and the copies before and after can be joined with this one.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg


def affine_reads(module: ir.Operation) -> None:
    """Read through an indexing map what a loop chooses by linear functions of its steps."""
    with module.context:
        for generic in list(linalg.operations(module, "linalg.generic")):
            if (read := _read(generic)) is not None:
                _replace(generic, *read)


def _read(generic: ir.Operation) -> tuple[ir.Value, ir.AffineMap] | None:
    """What a loop copies and where its elements are, if it does nothing else and all of them are inside."""
    yielded = linalg.maker(list(linalg.body(generic).operations)[-1].operands[0])
    if len(generic.results) != 1 or linalg.reduces(generic) or yielded is None or yielded.name != "tensor.extract":
        return None
    sizes, shape = linalg.loop_sizes(generic), ir.RankedTensorType(yielded.operands[0].type)
    places = [_expression(value) for value in list(yielded.operands)[1:]]
    found = [None if place is None else linalg.linear(place) for place in places]
    if None in sizes or None in found or not shape.has_static_shape or linalg.captured(generic)[1] != [yielded.operands[0]]:
        return None
    for (coefficients, start), size in zip(found, shape.shape, strict=True):
        steps = [n * (sizes[d] - 1) for d, n in coefficients.items()]
        if start + sum(min(step, 0) for step in steps) < 0 or start + sum(max(step, 0) for step in steps) >= size:
            return None
    return yielded.operands[0], ir.AffineMap.get(len(sizes), 0, places)


def _expression(value: ir.Value) -> ir.AffineExpr | None:
    """An index as an expression of the steps of the loops; None if it is more than sums and multiples of them."""
    op = linalg.maker(value)
    if op is None:
        return None
    if op.name == "linalg.index":
        return ir.AffineDimExpr.get(ir.IntegerAttr(op.attributes["dim"]).value)
    if (number := linalg.integer(value)) is not None:
        return ir.AffineConstantExpr.get(number)
    if op.name not in ("arith.addi", "arith.subi", "arith.muli"):
        return None
    one, other = map(_expression, op.operands)
    if one is None or other is None:
        return None
    if op.name == "arith.muli":
        return one * other
    return one + other if op.name == "arith.addi" else one + other * -1


def _replace(generic: ir.Operation, source: ir.Value, reads: ir.AffineMap) -> None:
    """Put a copy of the source through a map in the place of a loop."""
    kind, kinds = ir.RankedTensorType(generic.results[0].type), linalg.iterator_types(generic)
    with ir.InsertionPoint(generic), generic.location:
        maps = [reads, linalg.indexing_maps(generic)[-1]]
        copied = linalg.generic([source], linalg.room(source, kind), maps, kinds, lambda element, _: element)
    before = list(generic.operands)
    linalg.replace(generic, [copied])
    for operand in before:
        linalg.erase_unused(operand)
