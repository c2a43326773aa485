"""Tensors as matrices of rows along a reduction, and what is computed of them element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import linalg
from numc.passes.explicit.scales.run_sizes import Size, inside, is_same, known, product, reshaped, sizes

Body = Callable[..., ir.Value]
PARALLEL, REDUCTION = "parallel", "reduction"


def shaped(value: ir.Value, shape: Sequence[Size]) -> ir.Value:
    """A tensor with the same elements in other sizes."""
    return value if is_same(sizes(value), shape) else reshaped(value, shape)


def empty(shape: Sequence[Size], kind: ir.Type) -> ir.Value:
    """A tensor of these sizes without values."""
    return tensor.EmptyOp(shape, kind).result


def filled(shape: Sequence[Size], kind: ir.Type, value: float) -> ir.Value:
    """A tensor with a constant in every place."""
    number = arith.ConstantOp(kind, value).result
    return linalg.filled(empty(shape, kind), number)


def computed(
    inputs: Sequence[tuple[ir.Value, Sequence[int]]],
    shape: Sequence[Size],
    body: Body,
    kind: ir.Type | None = None,
) -> ir.Value:
    """A tensor of these sizes; each input comes with the loops that its dimensions are."""
    maps = [_map(len(shape), loops) for _, loops in inputs]
    maps.append(ir.AffineMap.get_identity(len(shape)))
    room = empty(shape, kind or ir.F32Type.get())
    values = [value for value, _ in inputs]
    return linalg.generic(values, room, maps, [PARALLEL] * len(shape), lambda *xs: body(*xs[:-1]))


def reduced(
    inputs: Sequence[tuple[ir.Value, Sequence[int]]],
    along: Sequence[int],
    start: ir.Value,
    kept: Sequence[int],
    body: Body,
) -> ir.Value:
    """A reduction over the loops `along`; kept: those that are the dimensions of `start`."""
    count = len(along) + len(kept)
    maps = [_map(count, dims) for _, dims in inputs] + [_map(count, kept)]
    kinds = [REDUCTION if n in along else PARALLEL for n in range(count)]
    return linalg.generic([value for value, _ in inputs], start, maps, kinds, body)


def filled_up(matrix: ir.Value, rows: Size, steps: Size) -> ir.Value:
    """A matrix with zeros behind its rows and its columns, up to these sizes."""
    own = sizes(matrix)
    if is_same(own, [rows, steps]):
        return matrix
    whole = filled([rows, steps], ir.RankedTensorType(matrix.type).element_type, 0.0)
    return tensor.InsertSliceOp(matrix, whole, *inside(own), [1, 1]).result


def first_steps(matrix: ir.Value, rows: Size, steps: Size) -> ir.Value:
    """The first rows and columns of a matrix."""
    shape = [rows, steps]
    if is_same(sizes(matrix), shape):
        return matrix
    cut = ir.RankedTensorType.get(known(shape), ir.RankedTensorType(matrix.type).element_type)
    return tensor.ExtractSliceOp(cut, matrix, *inside(shape), [1, 1]).result


def operand_matrix(generic: ir.Operation, number: int, trips: Sequence[Size]) -> tuple[ir.Value, list[int]]:
    """The rows of an operand of a contraction, (rows, steps), and the loops that its rows are.

    trips: the trip counts of the loops. A row is along all reductions, the outermost first.
    """
    roles, source = linalg.iterator_types(generic), linalg.indexing_maps(generic)[number]
    used = {d for expr in source.results for d in (linalg.linear(expr) or ({}, 0))[0]}
    across = [d for d, role in enumerate(roles) if role == PARALLEL and d in used]
    loops = [*across, *(d for d, role in enumerate(roles) if role == REDUCTION)]
    value = generic.operands[number]
    element = ir.RankedTensorType(value.type).element_type

    def taken(x: ir.Value) -> ir.Value:
        return x if element == ir.F32Type.get() else arith.ExtFOp(ir.F32Type.get(), x).result

    order = [
        ir.AffineDimExpr.get(loops.index(d)) if d in loops else ir.AffineConstantExpr.get(0) for d in range(len(roles))
    ]
    whole = value
    exprs = [expr.compose(ir.AffineMap.get(len(loops), 0, order)) for expr in source.results]
    is_plain = exprs == [ir.AffineDimExpr.get(n) for n in range(len(loops))]
    if not is_plain or element != ir.F32Type.get():
        shape = [trips[d] for d in loops]
        maps = [ir.AffineMap.get(len(loops), 0, exprs), ir.AffineMap.get_identity(len(loops))]
        room = empty(shape, ir.F32Type.get())
        whole = linalg.generic([value], room, maps, [PARALLEL] * len(loops), lambda x, _: taken(x))
    rows, steps = (product([trips[d] for d in some]) for some in (across, loops[len(across) :]))
    return shaped(whole, [rows, steps]), across


def _map(count: int, dims: Sequence[int]) -> ir.AffineMap:
    return ir.AffineMap.get(count, 0, [ir.AffineDimExpr.get(d) for d in dims])
