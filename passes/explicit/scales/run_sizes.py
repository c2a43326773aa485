"""Sizes of tensors that may be free: whole numbers, or index values of a run."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import linalg

Size = int | ir.Value


def sizes(value: ir.Value) -> list[Size]:
    """The sizes of a tensor."""
    tensor_type = ir.RankedTensorType(value.type)
    return [
        linalg.size_of(value, d) if tensor_type.is_dynamic_dim(d) else tensor_type.get_dim_size(d)
        for d in range(tensor_type.rank)
    ]


def loop_trips(generic: ir.Operation) -> list[Size]:
    """The trip count of each loop of a linalg.generic, as an operand has it as a dimension."""
    trips: dict[int, Size] = {}
    for operand, indexing in zip(generic.operands, linalg.indexing_maps(generic), strict=True):
        for n, expr in enumerate(indexing.results):
            if isinstance(expr, ir.AffineDimExpr) and not isinstance(trips.get(expr.position), int):
                trips[expr.position] = sizes(operand)[n]
    return [trips[d] for d in range(len(linalg.iterator_types(generic)))]


def product(factors: Sequence[Size]) -> Size:
    """The product of sizes."""
    result: Size = 1
    for size in factors:
        result = _times(result, size)
    return result


def ceil_div(size: Size, by: Size) -> Size:
    """A size divided by another one that is not 0, rounded up."""
    if isinstance(size, int) and isinstance(by, int):
        return -(-size // by)
    if equal(by, 1):
        return size
    return 1 if equal(size, by) else arith.CeilDivUIOp(_index(size), _index(by)).result


def at_least_one(size: Size) -> Size:
    """A size, or 1 in place of 0."""
    return max(size, 1) if isinstance(size, int) else arith.MaxUIOp(size, _index(1)).result


def equal(one: Size, other: Size) -> bool:
    """Whether two sizes are known to be equal."""
    return isinstance(one, int) == isinstance(other, int) and bool(one == other)


def is_same(one: Sequence[Size], other: Sequence[Size]) -> bool:
    """Whether sizes are known to be equal."""
    return len(one) == len(other) and all(map(equal, one, other))


def known(shape: Sequence[Size]) -> list[int]:
    """The sizes as a type has them."""
    free = ir.ShapedType.get_dynamic_size()
    return [size if isinstance(size, int) else free for size in shape]


def free(shape: Sequence[Size]) -> list[ir.Value]:
    """The free ones among sizes."""
    return [size for size in shape if not isinstance(size, int)]


def inside(shape: Sequence[Size]) -> tuple[list[ir.Value], list[ir.Value], list[ir.Value], list[int], list[int]]:
    """The first arguments of operations on slices for the first elements of these sizes, which the strides follow."""
    return [], free(shape), [], [0] * len(shape), known(shape)


def reshaped(value: ir.Value, shape: Sequence[Size]) -> ir.Value:
    """A tensor with the same elements in other sizes: by way of one dimension."""
    tensor_type = ir.RankedTensorType(value.type)
    if tensor_type.rank > 1:
        flat_type = ir.RankedTensorType.get(known([product(sizes(value))]), tensor_type.element_type)
        value = tensor.CollapseShapeOp(flat_type, value, [list(range(tensor_type.rank))]).result
    if tensor_type.rank == 0:
        value = tensor.ExpandShapeOp(ir.RankedTensorType.get([1], tensor_type.element_type), value, [], [], [1]).result
    if len(shape) == 1:
        return value
    to = ir.RankedTensorType.get(known(shape), tensor_type.element_type)
    return tensor.ExpandShapeOp(to, value, [list(range(len(shape)))], free(shape), known(shape)).result


def _times(one: Size, other: Size) -> Size:
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    if equal(one, 1) or equal(other, 1):
        return other if equal(one, 1) else one
    return arith.MulIOp(_index(one), _index(other)).result


def _index(size: Size) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), size).result if isinstance(size, int) else size
