"""sum-products: a sum of contractions of equal shapes becomes one contraction, which adds up their results as chunks.

The gradient of a weight that is used several times, such as the recurrent weight of an LSTM, is a sum of one small
contraction for each time. Each of them would write a result of the size of the weight, and read the sum of those
before. As chunks of one contraction, their results are added in the cache, and the sum is written once. Every chunk is
the chain of one contraction, from +0, and chunks are added by the same binary32 additions in the same order: no bit
changes. The total begins with -0, to which the first result is added unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.numerics.datapaths import Steps
from numc.numerics.operators import FP32, Fma
from numc.passes import linalg
from numc.passes.dialect import contracted

_ZERO = "0.000000e+00 : f32"


@dataclass(frozen=True)
class _Sum:
    """The additions of a sum of contractions, and these contractions, both in the order of the sum."""

    additions: tuple[ir.Operation, ...]
    products: tuple[ir.Operation, ...]


def sum_products(module: ir.Operation) -> None:
    """Make sums of contractions of equal shapes one contraction each, which adds up their results as chunks."""
    with module.context:
        sums: list[_Sum] = []
        parts: list[ir.Operation] = []
        for generic in reversed(list(linalg.operations(module, "linalg.generic"))):
            if _is_addition(generic) and generic not in parts and (candidate := _find(generic)) is not None:
                parts += candidate.additions
                sums.append(candidate)
        for each in sums:
            if _pays(each.products[0]):
                _join(each)


def _is_added_on(generic: ir.Operation) -> bool:
    """Whether the result of an operation only goes into an addition."""
    if len(generic.results) != 1 or linalg.uses(generic.results[0]) != 1:
        return False
    (use,) = generic.results[0].uses
    return use.operand_number < 2 and _is_addition(use.owner.operation)


def _find(last: ir.Operation) -> _Sum | None:
    """The sum of contractions that ends with an addition, if it is one."""
    additions: list[ir.Operation] = []
    products: list[ir.Operation] = []
    before = [last]
    while before:
        additions += before
        makers = [linalg.maker(value) for value in list(before[0].operands)[:2]]
        added = [op for op in makers if op is not None and _is_product(op)]
        before = [op for op in makers if op is not None and _is_addition(op) and _is_added_on(op)]
        if not added or len(added) + len(before) != 2 or any(op.block != last.block for op in added + before):
            return None
        products += added[::-1]
    if len({_key(op) for op in products}) != 1:
        return None
    return _Sum(tuple(additions[::-1]), tuple(products[::-1]))


def _is_addition(op: ir.Operation) -> bool:
    """Whether an operation adds two tensors of float32, element by element, and does nothing else."""
    if op.name != "linalg.generic" or linalg.input_count(op) != 2 or len(op.results) != 1 or linalg.reduces(op):
        return False
    maps = linalg.indexing_maps(op)
    steps, arguments = [each.operation for each in linalg.body(op).operations], linalg.body(op).arguments
    if any(m != ir.AffineMap.get_identity(maps[-1].n_dims) for m in maps) or len(steps) != 2:
        return False
    adds = steps[0].name == "arith.addf" and linalg.is_f32(steps[0].results[0])
    return adds and {*steps[0].operands} == {arguments[0], arguments[1]}


def _is_product(op: ir.Operation) -> bool:
    """Whether an operation is a contraction from +0 whose result is only added to others, and may be a chunk."""
    if op.name != "linalg.generic" or not _is_added_on(op) or linalg.filled_with(op.operands[-1]) != _ZERO:
        return False
    contraction = contracted(op)
    static = all(ir.RankedTensorType(value.type).has_static_shape for value in op.operands)
    plain = all(each.is_projected_permutation for each in linalg.indexing_maps(op))
    return contraction is not None and static and plain and _takes_chunks(contraction.fma)


def _takes_chunks(fma: Fma) -> bool:
    """Whether the chain of an operator has no order of its own, and depends on nothing but its operands."""
    return isinstance(fma.order, Steps) and not (fma.stochastic or fma.open_operands)


def _key(product: ir.Operation) -> tuple[object, ...]:
    """The common facts of the contractions of a sum."""
    kinds = tuple(str(value.type) for value in product.operands)
    return (*kinds, *linalg.indexing_maps(product), *linalg.iterator_types(product), linalg.body_text(product))


def _pays(product: ir.Operation) -> bool:
    """Whether the operands of a contraction, which are put side by side, are fewer elements than its result."""
    *operands, result = (prod(ir.RankedTensorType(value.type).shape) for value in product.operands)
    return bool(sum(operands) < result)


def _join(found: _Sum) -> None:
    """Replace a sum by one contraction, where its last addition is."""
    first, last = found.products[0], found.additions[-1]
    result_type = ir.RankedTensorType(last.results[0].type)
    kinds, maps = linalg.iterator_types(first), linalg.indexing_maps(first)
    outer = kinds.index("reduction")
    depth = prod(
        size for size, each in zip(linalg.loop_sizes(first), kinds, strict=True) if each == "reduction" and size
    )
    # The loop over the chunks is around those of their contraction.
    moved = ir.AffineMap.get(len(kinds) + 1, 0, [ir.AffineExpr.get_dim(d + (d >= outer)) for d in range(len(kinds))])
    results = [[e.compose(moved) for e in each.results] for each in maps]
    for each in results[:2]:
        each.insert(0, ir.AffineExpr.get_dim(outer))
    with ir.InsertionPoint(last), first.location:
        operands = [_side_by_side([op.operands[n] for op in found.products]) for n in (0, 1)]
        room = tensor.EmptyOp(result_type.shape, result_type.element_type).result
        operands.append(linalg.filled(room, arith.ConstantOp(result_type.element_type, -0.0).result))
    wide = [ir.AffineMap.get(len(kinds) + 1, 0, each) for each in results]
    new = linalg.with_operands(first, operands, wide, result_type, [*kinds[:outer], "reduction", *kinds[outer:]])
    new.move_before(last)
    contraction = contracted(new)
    assert contraction is not None
    path = replace(contraction.fma.datapath, chunk=depth, keeps_total=contraction.fma.acc.format != FP32.format)
    fma = replace(contraction.fma, name="", datapath=path)
    contraction.step.attributes["fma"] = ir.StringAttr.get(str(fma), new.context)
    rooms = dict.fromkeys(addition.operands[2] for addition in found.additions)
    linalg.replace(last, new.results)
    for addition in reversed(found.additions[:-1]):
        addition.erase()
    linalg.erase_unused(*rooms, *(product.results[0] for product in found.products))


def _side_by_side(parts: list[ir.Value]) -> ir.Value:
    """Emit a tensor of these tensors, with their number as its first dimension."""
    part_type = ir.RankedTensorType(parts[0].type)
    shape, steps = list(part_type.shape), [1] * (part_type.rank + 1)
    whole = tensor.EmptyOp([len(parts), *shape], part_type.element_type).result
    for n, part in enumerate(parts):
        offsets = [n, *[0] * part_type.rank]
        whole = tensor.InsertSliceOp(part, whole, [], [], [], offsets, [1, *shape], steps).result
    return whole
