"""split-batches: a contraction over batches that are several dimensions in one is written over these dimensions.

Importers make one dimension of all batches before a product and take it apart after it. Then a weight that all batches
share is repeated first, and what follows the product cannot be computed inside of its kernel. Every sum is the same
sum in the same order, so no bit changes.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import tensor

from numc.passes import linalg
from numc.passes.dialect import draws


def split_batches(module: ir.Operation) -> None:
    """Write contractions whose first dimension is collapsed before and expanded after over what it consists of."""
    with module.context:
        for generic in linalg.operations(module, "linalg.generic"):
            if linalg.contracts(generic) and (expand := _expansion(generic)) is not None:
                _split(generic, expand)


def _expansion(generic: ir.Operation) -> ir.Operation | None:
    """Return what takes the first dimension of the result apart, if an operand that has it was collapsed alike.

    The others are taken apart too: that moves nothing.
    """
    if len(generic.results) != 1 or linalg.uses(generic.results[0]) != 1:
        return None
    expand = next(iter(generic.results[0].uses)).owner.operation
    if expand.name != "tensor.expand_shape" or not ir.RankedTensorType(expand.results[0].type).has_static_shape:
        return None
    *inputs, out = linalg.indexing_maps(generic)
    batches = _batches(expand)
    if not batches or linalg.filled_with(generic.operands[-1]) is None or not out.is_projected_permutation:
        return None
    loop = ir.AffineDimExpr(out.results[0]).position
    body = linalg.body(generic).operations
    if linalg.iterator_types(generic)[loop] != "parallel":
        return None
    if any(
        op.name == "linalg.index" or draws(op.operation) for op in body
    ):  # a draw belongs to a place among the loops
        return None
    with_loop = [
        (value, indexing)
        for value, indexing in zip(generic.operands, inputs, strict=False)
        if any(loop in _loops(expr) for expr in indexing.results)
    ]
    begin = all(_begins_with(indexing, loop) and value.type.has_static_shape for value, indexing in with_loop)
    return expand if begin and any(_batches_before(value) == batches for value, _ in with_loop) else None


def _batches(reshape: ir.Operation) -> list[int]:
    """Return the sizes that a reshape has for one first dimension; none if it changes other dimensions, too."""
    first, *others = [list(group) for group in ir.ArrayAttr(reshape.attributes["reassociation"])]
    whole = ir.RankedTensorType(max((reshape.operands[0].type, reshape.results[0].type), key=lambda t: t.rank))
    return list(whole.shape)[: len(first)] if all(len(group) == 1 for group in others) else []


def _batches_before(value: ir.Value) -> list[int]:
    """Return the sizes of the dimensions that were collapsed into the first one of a tensor."""
    op = linalg.maker(value)
    return _batches(op) if op is not None and op.name == "tensor.collapse_shape" else []


def _in_batches(value: ir.Value, batches: list[int]) -> ir.Value:
    """An operand with these batches in the place of its first dimension."""
    before, (_, *others) = _batches_before(value), ir.RankedTensorType(value.type).shape
    if before == batches:
        return ir.Value(linalg.maker(value).operands[0])  # type: ignore[union-attr]
    shape = [*batches, *others]
    batched_type = ir.RankedTensorType.get(shape, value.type.element_type)
    if (groups := _joined(before, batches)) is not None:
        groups += [[len(before) + n] for n in range(len(others))]
        return tensor.CollapseShapeOp(batched_type, linalg.maker(value).operands[0], groups).result  # type: ignore[union-attr]
    groups = [list(range(len(batches))), *([len(batches) + n] for n in range(len(others)))]
    return tensor.ExpandShapeOp(batched_type, value, groups, [], shape).result


def _joined(parts: list[int], batches: list[int]) -> list[list[int]] | None:
    """Return which of some sizes make up each of the batches, if successive ones do."""
    groups, position = [], 0
    for n, size in enumerate(batches):
        group: list[int] = []
        product = 1
        while position < len(parts) and (product < size or not group or n == len(batches) - 1):
            group.append(position)
            product *= parts[position]
            position += 1
        if product != size or not group:
            return None
        groups.append(group)
    return groups


def _begins_with(indexing: ir.AffineMap, loop: int) -> bool:
    """Whether the first dimension of an operand is a loop, and no other dimension depends on it."""
    first, *others = indexing.results
    return isinstance(first, ir.AffineDimExpr) and first.position == loop and not any(loop in _loops(e) for e in others)


def _loops(expr: ir.AffineExpr) -> set[int]:
    linear = linalg.linear(expr)
    assert linear is not None, "a dimension of a contraction's operand is linear in its loops"
    return set(linear[0])


def _split(generic: ir.Operation, expand: ir.Operation) -> None:
    maps, kinds = linalg.indexing_maps(generic), linalg.iterator_types(generic)
    loop, batches = ir.AffineDimExpr(maps[-1].results[0]).position, _batches(expand)
    count = len(batches)
    dims = len(kinds) - 1 + count
    # The batch loops come in the place of their product.
    moved = [ir.AffineExpr.get_dim(n if n < loop else n + count - 1) for n in range(len(kinds))]
    inner = [ir.AffineExpr.get_dim(loop + n) for n in range(count)]
    operands, wide = [], []
    result = ir.RankedTensorType(expand.results[0].type)
    with ir.InsertionPoint(generic), generic.location:
        for value, indexing in zip(generic.operands, maps, strict=True):
            results = [expr.compose(ir.AffineMap.get(dims, 0, moved)) for expr in indexing.results]
            if _begins_with(indexing, loop):
                results[:1] = inner
                value = _in_batches(value, batches) if indexing is not maps[-1] else value
            operands.append(value)
            wide.append(ir.AffineMap.get(dims, 0, results))
        number = ir.Operation.create(
            "arith.constant",
            results=[result.element_type],
            attributes={"value": ir.Attribute.parse(str(linalg.filled_with(generic.operands[-1])))},
        ).results[0]
        room = ir.Operation.create("tensor.empty", results=[result]).results[0]
        spread = [ir.AffineMap.get(result.rank, 0, []), ir.AffineMap.get_identity(result.rank)]
        operands[-1] = linalg.generic([number], room, spread, ["parallel"] * result.rank, lambda one, _: one)
    kinds[loop : loop + 1] = ["parallel"] * count
    new = linalg.with_operands(generic, operands, wide, result, kinds)
    linalg.replace(expand, new.results)
    read = list(generic.operands)
    generic.erase()
    # A reader that is left would keep what made the tensor from being joined into the contraction.
    linalg.erase_unused(*read, makers=("tensor.collapse_shape",))
