"""integer-products: contractions of small integers become those that kernels compute.

The operands of quantised layers are bytes less a zero point, of 9 bits at most. Their contractions get the operator
``bytes``, whose kernels multiply bytes, where one operand has the 8 bits of a signed byte, and as many values as a
byte, from any least one on: that is subtracted, and what it would have added to the sums is added to them. Others get
``integers``.

What has no columns for the lanes of such kernels, a depthwise convolution, becomes a contraction of float32 numbers.
While no partial sum exceeds 2^24, their multiply-adds do not round, in any order: a contraction that is longer is cut
along its reduction, and the results are added as integers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import facts, linalg
from numc.passes.dialect import FmaOp
from numc.passes.tensors.narrow.integer_bounds import RESHAPES, VIEWS, Bounds, bounds, bounds_of_body
from numc.passes.tensors.products.integer_factors import Factor, Offset, copied, factors_of, place_of, without_offset

_EXACT = 1 << 24  # the largest magnitude up to which float32 has every integer
_MOST_PARTS = 32  # more would be slower than loops over integers


def integer_products(module: ir.Operation, statistics: bool = False) -> None:
    """Make contractions of integers of few bits those of ``bytes`` or ``integers``, or of float32 numbers."""
    if statistics:  # their additions are none that an operator does
        return
    known: dict[ir.Value, Bounds | None] = {}
    arguments = linalg.main(module).regions[0].blocks[0].arguments
    weights = {arguments[n] for n in facts.of_arguments(module, "numc.weight")}
    with module.context:
        for generic in linalg.operations(module, "linalg.generic"):
            if (product := _find(generic, known, weights)) is not None:
                _replace(product)


@dataclass(frozen=True)
class _Product:
    """A contraction of integers, and the one that computes it.

    factors: the order is that of A and B. fma: its operator. loop: of the reduction, which is cut into `parts`. less:
    what is subtracted from A in excess, and offset: what is not subtracted, but belongs to it.
    """

    generic: ir.Operation
    factors: tuple[Factor, Factor]
    fma: str
    loop: int
    parts: int = 1
    less: int = 0
    offset: Offset | None = None


def _find(generic: ir.Operation, known: dict[ir.Value, Bounds | None], weights: set[ir.Value]) -> _Product | None:
    """Return a contraction ``c + a * b`` whose factors are bounded by small numbers, or None."""
    factors = factors_of(generic)
    if factors is None:
        return None
    values = dict(zip(linalg.body(generic).arguments, (bounds(v, known) for v in generic.operands), strict=False))
    (a, x), (b, y) = ((factor, bounds_of_body(factor.value, values)) for factor in factors)
    kinds, sizes = linalg.iterator_types(generic), linalg.loop_sizes(generic)
    reduced = {d: sizes[d] or 0 for d, iterator in enumerate(kinds) if iterator == "reduction"}
    if x is None or y is None or not all(reduced.values()):
        return None
    largest, steps = max(map(abs, x)) * max(map(abs, y)), math.prod(reduced.values())
    total = ir.IntegerType(linalg.body(generic).arguments[linalg.input_count(generic)].type)
    if not (_has_columns(a, b) and _has_columns(b, a)) or (total.width > 32 and steps * largest >= 1 << 31):
        return _in_parts(generic, (a, b), largest, reduced)
    loop = next(iter(reduced))
    for (left, left_limits), (right, right_limits) in (((a, x), (b, y)), ((b, y), (a, x))):
        if not _within(right_limits, 8):
            continue
        can_differ = _is_constant(right.operand, weights) and _are_loops(right)  # its sums are taken once
        if _are_bytes(left_limits) and (can_differ or not left_limits[0]):
            return _Product(generic, (left, right), "bytes", loop, less=left_limits[0])
        whole, offset = without_offset(left) or (left, None)
        before = bounds(whole.operand, known) if offset is not None and can_differ else None
        if before is not None and _are_bytes(before):
            return _Product(generic, (whole, right), "bytes", loop, less=before[0], offset=offset)
    if _within(x, 16) and _within(y, 16):
        return _Product(generic, (a, b), "integers", loop)
    return _in_parts(generic, (a, b), largest, reduced)


def _in_parts(
    generic: ir.Operation, factors: tuple[Factor, Factor], largest: int, reduced: Mapping[int, int]
) -> _Product | None:
    """The contraction in as few parts as float32 computes without a rounding; None if they are too many."""
    candidates = []
    for loop, size in reduced.items():
        most = _EXACT // max(1, largest * math.prod(reduced.values()) // size)
        parts = -(-size // most) if most else _MOST_PARTS + 1
        # Along a loop that is one dimension of each operand, they can be cut.
        if parts == 1 or all(place_of(f.indexing, loop) is not None for f in factors):
            candidates.append((parts, loop))
    parts, loop = min(candidates, default=(_MOST_PARTS + 1, 0))
    return _Product(generic, factors, "fp32", loop, parts) if parts <= _MOST_PARTS else None


def _has_columns(factor: Factor, other: Factor) -> bool:
    """Whether a factor has a dimension of the result that the other one does not have."""
    dims, others = (
        {d for expr in f.indexing.results if (linear := linalg.linear(expr)) is not None for d in linear[0]}
        for f in (factor, other)
    )
    return not dims <= others


def _is_constant(value: ir.Value, weights: set[ir.Value]) -> bool:
    """Whether a tensor depends on weights alone."""
    seen, waiting = set(weights), [value]
    while waiting:
        if (value := waiting.pop()) in seen:
            continue
        seen.add(value)
        made = linalg.maker(value)
        if made is None or made.name not in ("arith.constant", "tensor.empty", *VIEWS, "linalg.generic"):
            return False
        waiting += made.operands
    return True


def _are_loops(factor: Factor) -> bool:
    """Whether the dimensions of a factor are loops."""
    return all(isinstance(expr, ir.AffineDimExpr) for expr in factor.indexing.results)


def _are_bytes(limits: Bounds) -> bool:
    """Whether there are at most as many values as a byte has."""
    return limits[1] - limits[0] < 1 << 8


def _within(limits: Bounds, bits: int) -> bool:
    """Whether integers of so many bits, with their sign, reach from the least to the largest value."""
    return -(1 << (bits - 1)) <= limits[0] and limits[1] < 1 << (bits - 1)


def _replace(product: _Product) -> None:
    generic, (a, b) = product.generic, product.factors
    start = generic.operands[linalg.input_count(generic)]
    tensor_type, wide = ir.RankedTensorType(start.type), ir.IntegerType(start.type.element_type)
    with ir.InsertionPoint(generic), generic.location:
        operands = [_in_float(generic, a, a.operand, product.less), _in_float(generic, b, b.operand)]
        read = [_part(product, start, operands, n) for n in range(product.parts)]
        same = ir.AffineMap.get_identity(tensor_type.rank)
        maps = [same] * len(read)
        if product.less or product.offset is not None:
            column, indexing = _columns(product, operands[1])
            read, maps = [*read, column], [*maps, indexing]
        if product.offset is not None:
            read, maps = [*read, product.offset.operand], [*maps, ir.AffineMap.get(tensor_type.rank, 0, [])]

        count = len(read)
        if not linalg.is_filled_with_zero(start):
            read, maps = [*read, start], [*maps, same]

        def total(*elements: ir.Value) -> ir.Value:
            numbers = _numbers(product, elements[:count])
            numbers = [n if wide.width == 32 else arith.ExtSIOp(wide, n).result for n in numbers]
            return functools.reduce(lambda a, b: arith.AddIOp(a, b).result, [*elements[count:-1], *numbers])

        parallel = ["parallel"] * tensor_type.rank
        made = linalg.generic(read, linalg.room(start, tensor_type), [*maps, same], parallel, total)
    replaced = list(generic.operands)
    linalg.replace(generic, [made])
    linalg.erase_unused(*replaced)


def _numbers(product: _Product, read: Sequence[ir.Value]) -> list[ir.Value]:
    """The integers (i32) that add up to a sum, from elements of contractions, of the columns of B, and the offset of A.

    A is ``a' + less - offset``, where the contraction has a'.
    """
    i32 = ir.IntegerType.get_signless(32)
    if product.fma == "fp32":
        return [arith.FPToSIOp(i32, part).result for part in read]
    total = arith.BitcastOp(i32, read[0]).result
    if len(read) > 1:
        column = read[1]
        if product.offset is not None:
            offset = copied(product.offset.value, {product.offset.argument: read[2]})
            less = arith.SubIOp(arith.ConstantOp(i32, product.less).result, offset).result
            column = arith.MulIOp(column, less).result
        total = arith.AddIOp(total, column).result
    return [total]


def _columns(product: _Product, operand: ir.Value) -> tuple[ir.Value, ir.AffineMap]:
    """The sums of B over the reduction (i32), and how the loops over the result read them.

    They are multiplied by what is subtracted from A, if that is a number.
    """
    generic, (_, b) = product.generic, product.factors
    kinds, sizes = linalg.iterator_types(generic), ir.RankedTensorType(operand.type).shape
    loops = [expr.position for expr in b.indexing.results]
    kept = [n for n, loop in enumerate(loops) if kinds[loop] == "parallel"]
    i32 = ir.IntegerType.get_signless(32)
    zeros = linalg.filled(
        tensor.EmptyOp([sizes[n] for n in kept], i32).result,
        arith.ConstantOp(i32, 0).result,
    )
    dims = [ir.AffineDimExpr.get(n) for n in range(len(loops))]
    maps = [ir.AffineMap.get_identity(len(loops)), ir.AffineMap.get(len(loops), 0, [dims[n] for n in kept])]

    def add(x: ir.Value, total: ir.Value) -> ir.Value:
        number = arith.FPToSIOp(i32, x).result
        if product.offset is None:
            number = arith.MulIOp(number, arith.ConstantOp(i32, product.less).result).result
        return arith.AddIOp(total, number).result

    column = linalg.generic([operand], zeros, maps, [kinds[loop] for loop in loops], add)
    of_result = {expr.position: n for n, expr in enumerate(linalg.indexing_maps(generic)[-1].results)}
    rank = len(of_result)
    return column, ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(of_result[loops[n]]) for n in kept])


def _in_float(generic: ir.Operation, factor: Factor, value: ir.Value, less: int = 0) -> ir.Value:
    """A factor, less a number, as a tensor of float32. What changes its shape comes after that: other passes see it."""
    tensor_type, made = ir.RankedTensorType(value.type), linalg.maker(value)
    wide = ir.RankedTensorType.get(tensor_type.shape, ir.F32Type.get())
    if made is not None and made.name in RESHAPES:
        source = _in_float(generic, factor, made.operands[0], less)
        attributes = {name: made.attributes[name] for name in made.attributes}
        return ir.Operation.create(made.name, [wide], [source, *list(made.operands)[1:]], attributes).results[0]
    if made is not None and made.name == "tensor.insert_slice" and factor.value == factor.argument:
        source, below, *places = made.operands  # padding
        if linalg.is_filled_with_zero(below):
            border = arith.ConstantOp(ir.F32Type.get(), float(-less)).result
            padded = [_in_float(generic, factor, source, less), linalg.filled(linalg.room(value, wide), border)]
            attributes = {name: made.attributes[name] for name in made.attributes}
            return ir.Operation.create(made.name, [wide], [*padded, *places], attributes).results[0]
    inputs = linalg.input_count(generic)
    known = dict(zip(linalg.body(generic).arguments, list(generic.operands)[:inputs], strict=False))

    def body(element: ir.Value, _: ir.Value) -> ir.Value:
        number = copied(factor.value, known | {factor.argument: element})
        if less:
            if ir.IntegerType(number.type).width < 32:
                number = arith.ExtSIOp(ir.IntegerType.get_signless(32), number).result
            number = arith.SubIOp(number, arith.ConstantOp(number.type, less).result).result
        return arith.SIToFPOp(ir.F32Type.get(), number).result

    maps = [ir.AffineMap.get_identity(tensor_type.rank)] * 2
    return linalg.generic([value], linalg.room(value, wide), maps, ["parallel"] * tensor_type.rank, body)


def _part(product: _Product, start: ir.Value, operands: Sequence[ir.Value], number: int) -> ir.Value:
    """The contraction of a part of the reduction, from zero."""
    generic, (a, b) = product.generic, product.factors
    size = linalg.loop_sizes(generic)[product.loop] or 0
    bounds = [n * size // product.parts for n in (number, number + 1)]
    dims = [place_of(factor.indexing, product.loop) for factor in (a, b)]
    cut = [value if dim is None else _cut(value, dim, *bounds) for value, dim in zip(operands, dims, strict=True)]
    part_type = ir.RankedTensorType.get(ir.RankedTensorType(start.type).shape, ir.F32Type.get())
    zeros = linalg.filled(linalg.room(start, part_type), arith.ConstantOp(ir.F32Type.get(), 0.0).result)
    maps = [a.indexing, b.indexing, linalg.indexing_maps(generic)[-1]]
    fma = ir.StringAttr.get(product.fma)
    body = lambda x, y, z: FmaOp(ir.F32Type.get(), x, y, z, fma=fma).result  # noqa: E731
    return linalg.generic(cut, zeros, maps, linalg.iterator_types(generic), body)


def _cut(value: ir.Value, dim: int, first: int, end: int) -> ir.Value:
    """The elements from `first` up to `end` along a dimension."""
    tensor_type = ir.RankedTensorType(value.type)
    if (first, end) == (0, tensor_type.get_dim_size(dim)):
        return value
    offsets, sizes = [0] * tensor_type.rank, list(tensor_type.shape)
    offsets[dim], sizes[dim] = first, end - first
    dynamic = [linalg.size_of(value, d) for d in range(tensor_type.rank) if tensor_type.is_dynamic_dim(d)]
    result = ir.RankedTensorType.get(sizes, tensor_type.element_type)
    return tensor.ExtractSliceOp(result, value, [], dynamic, [], offsets, sizes, [1] * tensor_type.rank).result
