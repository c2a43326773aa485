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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import facts, linalg
from numc.passes.dialect import FmaOp

Bounds = tuple[int, int]
"""The least and the largest value of an integer."""

_EXACT = 1 << 24  # the largest magnitude up to which float32 has every integer
_MOST_PARTS = 32  # more would be slower than loops over integers
_RESHAPES = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")
_VIEWS = (*_RESHAPES, "tensor.extract_slice")


def integer_products(module: ir.Operation, statistics: bool = False) -> None:
    """Make contractions of integers of few bits exact contractions of float32."""
    if statistics:  # their additions are none that an operator does
        return
    known: dict[ir.Value, Bounds | None] = {}
    arguments = linalg.main(module).regions[0].blocks[0].arguments
    weights = {arguments[n] for n in facts.of_arguments(module, "numc.weight")}
    with module.context:
        for generic in linalg.operations(module, "linalg.generic"):
            if (found := _find(generic, known, weights)) is not None:
                _replace(found)


@dataclass(frozen=True)
class _Factor:
    """A factor of a contraction: `value`, computed in its body from one operand and scalars.

    argument: of the body. operand: the tensor, or what that repeats, which is read by the map `indexing`.
    """

    value: ir.Value
    argument: ir.BlockArgument
    operand: ir.Value
    indexing: ir.AffineMap


@dataclass(frozen=True)
class _Product:
    """A contraction of integers, and the one that computes it.

    factors: the order is that of A and B. fma: its operator. loop: of the reduction, which is cut into `parts`. less:
    what is subtracted from A.
    """

    generic: ir.Operation
    factors: tuple[_Factor, _Factor]
    fma: str
    loop: int
    parts: int = 1
    less: int = 0


def _find(generic: ir.Operation, known: dict[ir.Value, Bounds | None], weights: set[ir.Value]) -> _Product | None:
    """Return a contraction ``c + a * b`` whose factors are bounded by small numbers, or None."""
    factors = _factors(generic)
    if factors is None:
        return None
    values = dict(zip(linalg.body(generic).arguments, (_bounds(v, known) for v in generic.operands), strict=False))
    (a, x), (b, y) = ((factor, _of_body(factor.value, values)) for factor in factors)
    kinds, sizes = linalg.iterator_types(generic), linalg.loop_sizes(generic)
    reduced = {d: sizes[d] or 0 for d, kind in enumerate(kinds) if kind == "reduction"}
    if x is None or y is None or not all(reduced.values()):
        return None
    largest, steps = max(map(abs, x)) * max(map(abs, y)), math.prod(reduced.values())
    total = ir.IntegerType(linalg.body(generic).arguments[linalg.input_count(generic)].type)
    if _has_columns(a, b) and _has_columns(b, a) and (total.width == 32 or steps * largest < 1 << 31):
        for (one, limits), (other, limits_of_other) in (((a, x), (b, y)), ((b, y), (a, x))):
            span, least = limits[1] - limits[0] < 1 << 8, limits[0]
            summed = not least or (_is_constant(other.operand, weights) and _are_loops(other) and steps < 1 << 16)
            if span and summed and _within(limits_of_other, 8):
                return _Product(generic, (one, other), "bytes", next(iter(reduced)), less=least)
        if _within(x, 16) and _within(y, 16):
            return _Product(generic, (a, b), "integers", next(iter(reduced)))
    return _in_parts(generic, (a, b), largest, reduced)


def _in_parts(
    generic: ir.Operation, factors: tuple[_Factor, _Factor], largest: int, reduced: Mapping[int, int]
) -> _Product | None:
    """The contraction in as few parts as float32 computes without a rounding; None if they are too many."""
    found = []
    for loop, size in reduced.items():
        most = _EXACT // max(1, largest * math.prod(reduced.values()) // size)
        parts = -(-size // most) if most else _MOST_PARTS + 1
        # Along a loop that is one dimension of each operand, they can be cut.
        if parts == 1 or all(_place(f.indexing, loop) is not None for f in factors):
            found.append((parts, loop))
    parts, loop = min(found, default=(_MOST_PARTS + 1, 0))
    return _Product(generic, factors, "fp32", loop, parts) if parts <= _MOST_PARTS else None


def _has_columns(factor: _Factor, other: _Factor) -> bool:
    """Whether a factor has a dimension of the result that the other one does not have."""
    dims, others = (
        {d for expr in f.indexing.results if (found := linalg.linear(expr)) is not None for d in found[0]}
        for f in (factor, other)
    )
    return not dims <= others


def _is_constant(value: ir.Value, weights: set[ir.Value]) -> bool:
    """Whether a tensor depends on weights alone."""
    if value in weights:
        return True
    made = linalg.maker(value)
    if made is None:
        return False
    return made.name in ("arith.constant", "tensor.empty") or (
        made.name in (*_VIEWS, "linalg.generic") and all(_is_constant(v, weights) for v in made.operands)
    )


def _are_loops(factor: _Factor) -> bool:
    """Whether the dimensions of a factor are loops."""
    return all(isinstance(expr, ir.AffineDimExpr) for expr in factor.indexing.results)


def _within(limits: Bounds, bits: int) -> bool:
    """Whether integers of so many bits, with their sign, reach from the least to the largest value."""
    return -(1 << (bits - 1)) <= limits[0] and limits[1] < 1 << (bits - 1)


def _factors(generic: ir.Operation) -> tuple[_Factor, _Factor] | None:
    """Return the factors of a contraction of integers; None for anything else."""
    inputs = linalg.input_count(generic)
    if len(generic.results) != 1 or not linalg.reduces(generic):
        return None
    block = linalg.body(generic)
    out = block.arguments[inputs]
    if not isinstance(out.type, ir.IntegerType) or out.type.width < 32:
        return None
    add = linalg.maker(list(block.operations)[-1].operands[0])
    if add is None or add.name != "arith.addi" or out not in list(add.operands):
        return None
    multiply = linalg.maker(next((value for value in add.operands if value != out), out))
    if multiply is None or multiply.name != "arith.muli":
        return None
    found, maps = [], linalg.indexing_maps(generic)
    for value in map(_narrow, multiply.operands):
        read = _read(value, block)
        tensors = {n for n in read if isinstance(generic.operands[n].type, ir.RankedTensorType)}
        if len(tensors) != 1 or max(read) >= inputs:
            return None
        (number,) = tensors
        operand, indexing = _source(generic.operands[number], maps[number])
        found.append(_Factor(value, ir.BlockArgument(block.arguments[number]), operand, indexing))
    return found[0], found[1]


def _narrow(value: ir.Value) -> ir.Value:
    """A number before it was made wider with its sign."""
    made = linalg.maker(value)
    return made.operands[0] if made is not None and made.name == "arith.extsi" else value


def _read(value: ir.Value, block: ir.Block) -> set[int]:
    """The numbers of the arguments of a body that a value depends on."""
    if isinstance(value.owner, ir.Block):
        return {ir.BlockArgument(value).arg_number} if value.owner == block else set()
    return set().union(*(_read(operand, block) for operand in value.owner.operation.operands))


def _source(value: ir.Value, indexing: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap]:
    """What an operand repeats or transposes, and how a contraction reads that instead of it."""
    made = linalg.maker(value)
    while made is not None and _copies(made):
        read, written = linalg.indexing_maps(made)
        whole = written == ir.AffineMap.get_identity(written.n_dims)
        if not whole or not all(isinstance(expr, ir.AffineDimExpr) for expr in read.results):
            break
        places = [indexing.results[expr.position] for expr in read.results]
        value, indexing = made.operands[0], ir.AffineMap.get(indexing.n_dims, 0, places)
        made = linalg.maker(value)
    return value, indexing


def _copies(made: ir.Operation) -> bool:
    """Whether an operation puts the elements of one tensor somewhere else."""
    if made.name != "linalg.generic" or linalg.reduces(made) or linalg.input_count(made) != 1:
        return False
    operations = list(linalg.body(made).operations)
    only = len(operations) == 1 and operations[0].operands[0] == linalg.body(made).arguments[0]
    return only and isinstance(made.operands[0].type, ir.RankedTensorType)


def _place(indexing: ir.AffineMap, loop: int) -> int | None:
    """The dimension of an operand that a loop is; None if it is none, or a part of one."""
    dims = [linalg.linear(expr) for expr in indexing.results]
    places = [n for n, found in enumerate(dims) if found is None or loop in found[0]]
    whole = len(places) == 1 and isinstance(indexing.results[places[0]], ir.AffineDimExpr)
    return places[0] if whole else None


def _replace(product: _Product) -> None:
    generic, (a, b) = product.generic, product.factors
    start = generic.operands[linalg.input_count(generic)]
    kind, wide = ir.RankedTensorType(start.type), ir.IntegerType(start.type.element_type)
    with ir.InsertionPoint(generic), generic.location:
        operands = [_in_float(generic, a, a.operand, product.less), _in_float(generic, b, b.operand)]
        sums = [_part(product, start, operands, n) for n in range(product.parts)]
        maps = [ir.AffineMap.get_identity(kind.rank)] * (len(sums) + 2)
        if product.less:
            column, indexing = _columns(product, operands[1])
            sums, maps = [*sums, column], [*maps[: len(sums)], indexing, *maps[:2]]

        def total(*elements: ir.Value) -> ir.Value:
            *parts, start, _ = elements
            for number in _numbers(product, parts):
                more = number if wide.width == 32 else arith.ExtSIOp(wide, number).result
                start = arith.AddIOp(start, more).result
            return start

        made = linalg.generic([*sums, start], linalg.room(start, kind), maps, ["parallel"] * kind.rank, total)
    replaced = list(generic.operands)
    linalg.replace(generic, [made])
    for value in dict.fromkeys(replaced):
        linalg.erase_unused(value)


def _numbers(product: _Product, parts: Sequence[ir.Value]) -> list[ir.Value]:
    """The integers (i32) that a sum is the sum of, from elements of the contractions, and of the columns of B."""
    i32 = ir.IntegerType.get_signless(32)
    if product.fma == "fp32":
        return [arith.FPToSIOp(i32, part).result for part in parts]
    found = [arith.BitcastOp(i32, parts[0]).result]
    for column in parts[1:]:
        less = arith.ConstantOp(i32, product.less).result
        found.append(arith.MulIOp(arith.FPToSIOp(i32, column).result, less).result)
    return found


def _columns(product: _Product, operand: ir.Value) -> tuple[ir.Value, ir.AffineMap]:
    """The sums of B over the reduction, in float32, and how the loops over the result read them."""
    generic, (_, b) = product.generic, product.factors
    kinds, sizes = linalg.iterator_types(generic), ir.RankedTensorType(operand.type).shape
    loops = [expr.position for expr in b.indexing.results]
    kept = [n for n, loop in enumerate(loops) if kinds[loop] == "parallel"]
    zeros = linalg.filled(
        tensor.EmptyOp([sizes[n] for n in kept], ir.F32Type.get()).result,
        arith.ConstantOp(ir.F32Type.get(), 0.0).result,
    )
    dims = [ir.AffineDimExpr.get(n) for n in range(len(loops))]
    maps = [ir.AffineMap.get_identity(len(loops)), ir.AffineMap.get(len(loops), 0, [dims[n] for n in kept])]
    add = lambda x, total: arith.AddFOp(total, x).result  # noqa: E731
    column = linalg.generic([operand], zeros, maps, [kinds[loop] for loop in loops], add)
    of_result = {expr.position: n for n, expr in enumerate(linalg.indexing_maps(generic)[-1].results)}
    rank = len(of_result)
    return column, ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(of_result[loops[n]]) for n in kept])


def _in_float(generic: ir.Operation, factor: _Factor, value: ir.Value, less: int = 0) -> ir.Value:
    """A factor, less a number, as a tensor of float32. What changes its shape comes after that: other passes see it."""
    kind, made = ir.RankedTensorType(value.type), linalg.maker(value)
    wide = ir.RankedTensorType.get(kind.shape, ir.F32Type.get())
    if made is not None and made.name in _RESHAPES:
        source = _in_float(generic, factor, made.operands[0], less)
        attributes = {name: made.attributes[name] for name in made.attributes}
        return ir.Operation.create(made.name, [wide], [source, *list(made.operands)[1:]], attributes).results[0]
    inputs = linalg.input_count(generic)
    known = dict(zip(linalg.body(generic).arguments, list(generic.operands)[:inputs], strict=False))

    def body(element: ir.Value, _: ir.Value) -> ir.Value:
        number = _copied(factor.value, known | {factor.argument: element})
        if less:
            if ir.IntegerType(number.type).width < 32:
                number = arith.ExtSIOp(ir.IntegerType.get_signless(32), number).result
            number = arith.SubIOp(number, arith.ConstantOp(number.type, less).result).result
        return arith.SIToFPOp(ir.F32Type.get(), number).result

    maps = [ir.AffineMap.get_identity(kind.rank)] * 2
    return linalg.generic([value], linalg.room(value, wide), maps, ["parallel"] * kind.rank, body)


def _copied(value: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
    """Copy what computes a value to the insertion point, with others for the arguments of its body."""
    made = linalg.maker(value)
    if value not in values and made is not None and made.parent.name == "linalg.generic":
        for operand in made.operands:
            _copied(operand, values)
        linalg.copy(made, ir.InsertionPoint.current, values)
    return values.get(value, value)


def _part(product: _Product, start: ir.Value, operands: Sequence[ir.Value], number: int) -> ir.Value:
    """The contraction of a part of the reduction, from zero."""
    generic, (a, b) = product.generic, product.factors
    size = linalg.loop_sizes(generic)[product.loop] or 0
    bounds = [n * size // product.parts for n in (number, number + 1)]
    places = [_place(factor.indexing, product.loop) for factor in (a, b)]
    cut = [
        value if place is None else _cut(value, place, *bounds) for value, place in zip(operands, places, strict=True)
    ]
    kind = ir.RankedTensorType.get(ir.RankedTensorType(start.type).shape, ir.F32Type.get())
    zeros = linalg.filled(linalg.room(start, kind), arith.ConstantOp(ir.F32Type.get(), 0.0).result)
    maps = [a.indexing, b.indexing, linalg.indexing_maps(generic)[-1]]
    fma = ir.StringAttr.get(product.fma)
    body = lambda x, y, z: FmaOp(ir.F32Type.get(), x, y, z, fma=fma).result  # noqa: E731
    return linalg.generic(cut, zeros, maps, linalg.iterator_types(generic), body)


def _cut(value: ir.Value, dim: int, first: int, end: int) -> ir.Value:
    """The elements from `first` up to `end` along a dimension."""
    kind = ir.RankedTensorType(value.type)
    if (first, end) == (0, kind.get_dim_size(dim)):
        return value
    offsets, sizes = [0] * kind.rank, list(kind.shape)
    offsets[dim], sizes[dim] = first, end - first
    dynamic = [linalg.size_of(value, d) for d in range(kind.rank) if kind.is_dynamic_dim(d)]
    result = ir.RankedTensorType.get(sizes, kind.element_type)
    return tensor.ExtractSliceOp(result, value, [], dynamic, [], offsets, sizes, [1] * kind.rank).result


def _bounds(value: ir.Value, known: dict[ir.Value, Bounds | None]) -> Bounds | None:
    """Return the bounds of the elements of a tensor of integers, or of a scalar; None if nothing tells."""
    if value not in known:
        known[value] = _found(value, known)
    return known[value]


def _found(value: ir.Value, known: dict[ir.Value, Bounds | None]) -> Bounds | None:
    made = linalg.maker(value)
    if made is None or not isinstance(getattr(value.type, "element_type", value.type), ir.IntegerType):
        return None  # what floats are made of tells nothing
    if made.name in _VIEWS:
        return _bounds(made.operands[0], known)
    if made.name == "arith.constant":
        return _constant(made.attributes["value"])
    if made.name in ("tensor.insert_slice", "tensor.concat"):
        parts = made.operands[:2] if made.name == "tensor.insert_slice" else made.operands
        return _union([_bounds(part, known) for part in parts])
    if made.name != "linalg.generic" or linalg.reduces(made):
        return None
    block = linalg.body(made)
    values = {
        argument: _bounds(operand, known)
        for argument, operand in zip(block.arguments, list(made.operands)[: linalg.input_count(made)], strict=False)
    }
    return _of_body(
        list(block.operations)[-1].operands[made.results.index(value) if len(made.results) > 1 else 0], values
    )


def _constant(attribute: ir.Attribute) -> Bounds | None:
    if isinstance(attribute, ir.IntegerAttr):
        return attribute.value, attribute.value
    if not isinstance(attribute, ir.DenseIntElementsAttr) or "i1>" in str(attribute.type):
        return None
    if attribute.is_splat:
        number = int(ir.IntegerAttr(attribute.get_splat_value()).value)
        return number, number
    numbers = np.array(attribute)
    return (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)


def _union(parts: Sequence[Bounds | None]) -> Bounds | None:
    found = [part for part in parts if part is not None]
    return (min(p[0] for p in found), max(p[1] for p in found)) if found and len(found) == len(parts) else None


def _of_body(value: ir.Value, values: Mapping[ir.Value, Bounds | None]) -> Bounds | None:
    """Return the bounds of a value in a body, given those of its arguments. What wraps has none."""
    if value in values:
        return values[value]
    made = linalg.maker(value)
    if made is None:
        return None
    if made.name == "arith.constant":
        return _constant(made.attributes["value"])
    if made.name in ("arith.extsi", "arith.extui"):
        return _widened(made, values)
    operands = [_of_body(operand, values) for operand in made.operands]
    if made.name not in _RULES or None in operands:
        return None
    found = _RULES[made.name](*operands)
    half = 1 << (ir.IntegerType(value.type).width - 1)
    return found if -half <= found[0] and found[1] < half else None


def _widened(made: ir.Operation, values: Mapping[ir.Value, Bounds | None]) -> Bounds | None:
    source = made.operands[0]
    known, width = _of_body(source, values), ir.IntegerType(source.type).width
    if made.name == "arith.extui":
        if known is not None and (known[0] >= 0 or known[0] == known[1]):
            return known[0] % (1 << width), known[1] % (1 << width)  # as numbers with signs, large ones are negative
        return 0, (1 << width) - 1
    return known or (-(1 << (width - 1)), (1 << (width - 1)) - 1)


_RULES: Mapping[str, Callable[..., Bounds]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.trunci": lambda a: a,
}
