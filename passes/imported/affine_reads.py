"""affine-reads: elements that a loop chooses by linear functions of its steps are read through an indexing map.

So are tensors turned around, like the filters of a convolution for the gradient of its input, and the elements of a
window in which the largest one is looked for. Through a map they are read without tables of indices and without checks,
and a loop that only copies can be joined with those before and after it.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import linalg


def affine_reads(module: ir.Operation) -> None:
    """Read through an indexing map what a loop chooses by linear functions of its steps."""
    with module.context:
        for generic in list(linalg.operations(module, "linalg.generic")):
            sizes = linalg.loop_sizes(generic)
            extracts = [op for op in linalg.operations(generic, "tensor.extract") if op.parent == generic]
            affine_extracts = [(op, reads) for op in extracts if (reads := _map(op, sizes)) is not None]
            if affine_extracts and len(generic.results) == 1:
                _rebuild(generic, dict(affine_extracts))


def _map(extract: ir.Operation, sizes: list[int | None]) -> ir.AffineMap | None:
    """Where the elements are that loops of these sizes choose, if that is linear and all of them are inside."""
    tensor_type = ir.RankedTensorType(extract.operands[0].type)
    if None in sizes or not tensor_type.has_static_shape:
        return None
    exprs = []
    for index, size in zip(list(extract.operands)[1:], tensor_type.shape, strict=True):
        expr = _expression(index)
        linear = None if expr is None else linalg.linear(expr)
        if expr is None or linear is None:
            return None
        last = [n * ((sizes[d] or 0) - 1) for d, n in linear[0].items()]
        first, end = (linear[1] + sum(bound(n, 0) for n in last) for bound in (min, max))
        if first < 0 or end >= size or (isinstance(expr, ir.AffineDimExpr) and end + 1 < size):
            return None  # a dimension of its own says how many steps a loop has
        exprs.append(expr)
    return ir.AffineMap.get(len(sizes), 0, exprs)


def _expression(index: ir.Value) -> ir.AffineExpr | None:
    """An index as an expression of the steps of the loops; None if it is more than sums and multiples of them."""
    op = linalg.maker(index)
    if op is None:
        return None
    if op.name == "linalg.index":
        return ir.AffineDimExpr.get(ir.IntegerAttr(op.attributes["dim"]).value)
    if (number := linalg.integer(index)) is not None:
        return ir.AffineConstantExpr.get(number)
    if op.name not in ("arith.addi", "arith.subi", "arith.muli"):
        return None
    left, right = map(_expression, op.operands)
    if left is None or right is None:
        return None
    if op.name == "arith.muli":
        return left * right
    return left + right if op.name == "arith.addi" else left + right * -1


def _rebuild(generic: ir.Operation, reads: dict[ir.Operation, ir.AffineMap]) -> None:
    """Let a loop take what it reads through maps as inputs, and leave out those and the start that its body ignores."""
    block, inputs = linalg.body(generic), linalg.input_count(generic)
    *maps, writes = linalg.indexing_maps(generic)
    named = [*reads.values(), writes]
    taken = [n for n in range(inputs) if not linalg.is_unused(block.arguments[n]) or not linalg.names_all_loops(named)]
    before = into = generic.operands[inputs]
    if linalg.is_unused(block.arguments[inputs]):
        with ir.InsertionPoint(generic), generic.location:
            into = linalg.room(before, ir.RankedTensorType(before.type))
    kept = [*(block.arguments[n] for n in taken), *(op.results[0] for op in reads), block.arguments[inputs]]
    new, body = linalg.generic_like(
        generic,
        [*(generic.operands[n] for n in taken), *(op.operands[0] for op in reads), into],
        [*(maps[n] for n in taken), *named],
        [value.type for value in kept],
        [generic.results[0].type],
    )
    yielded = linalg.copy_body(block, ir.InsertionPoint(body), dict(zip(kept, body.arguments, strict=True)))
    with ir.InsertionPoint(body), generic.location:
        ir.Operation.create("linalg.yield", operands=yielded)
    for op in reversed([op.operation for op in body.operations][:-1]):
        if (op.name.startswith("arith.") or op.name == "linalg.index") and linalg.is_unused(op.results[0]):
            op.erase()
    linalg.replace(generic, new.results)
    linalg.erase_unused(before)
