"""Tensors whose free sizes stretch where they are 1, which is known in a run only."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf, tensor

from numc.frontends.lowering.tensor_code import Size, index_of, sizes_of
from numc.passes.explicit.sizes import size_of
from numc.passes.imported.run_time_checks import INSIDE
from numc.passes.linalg import generic, operations

MISFIT = "sizes do not fit: two sizes of a dimension differ, and neither is 1"


def expand(operands: Sequence[ir.Value], _: Sequence[int], kind: ir.Type) -> ir.Value:
    """Stretch a tensor to sizes that a list has, from the last one on; where they are 1, it keeps its own."""
    value, listed = operands
    wanted: list[Size] = []
    for n in range(ir.RankedTensorType(listed.type).shape[0]):
        size = tensor.ExtractOp(listed, [index_of(n)]).result
        wanted.append(arith.IndexCastOp(ir.IndexType.get(), size).result)
    missing = ir.RankedTensorType(kind).rank - len(wanted)
    return _expanded(value, [*[1] * missing, *wanted], ir.RankedTensorType(kind))


def stretch(operands: Sequence[ir.Value], numbers: Sequence[int], kind: ir.Type) -> ir.Value:
    """Stretch a tensor in some dimensions to sizes of another one; where they are 1, it keeps its own.

    numbers: pairs of a dimension of the tensor, and one of the other, which are counted from the last one, -1.
    """
    value, other = operands
    wanted: list[Size] = [1] * ir.RankedTensorType(kind).rank
    sizes = sizes_of(other)
    for mine, its in zip(numbers[::2], numbers[1::2], strict=True):
        wanted[mine] = sizes[its]
    return _expanded(value, wanted, ir.RankedTensorType(kind))


def _expanded(value: ir.Value, wanted: Sequence[Size], result: ir.RankedTensorType) -> ir.Value:
    source_sizes = sizes_of(value)
    missing = result.rank - len(source_sizes)
    sizes: list[Size] = []
    for n, (have, want) in enumerate(zip([*[1] * missing, *source_sizes], wanted, strict=True)):
        if not (isinstance(want, int) and want == 1):
            _require_fit(have, want)
        sizes.append(_stretched(have, want) if result.is_dynamic_dim(n) else result.get_dim_size(n))
    empty = tensor.EmptyOp(sizes, result.element_type).result

    def body(_: ir.Value) -> ir.Value:
        return tensor.ExtractOp(value, [_place(n + missing, have) for n, have in enumerate(source_sizes)]).result

    maps = [ir.AffineMap.get_identity(result.rank)]
    made = generic([], empty, maps, ["parallel"] * result.rank, body)
    made.owner.attributes[INSIDE] = ir.UnitAttr.get()
    return made


def _stretched(have: Size, want: Size) -> Size:
    if isinstance(want, int) and want == 1:
        return have
    if isinstance(have, int):
        return want if have == 1 else have
    return arith.SelectOp(_is(have, 1), index_of(want), have).result


def _require_fit(have: Size, want: Size) -> None:
    if isinstance(have, int) and have == 1:
        return
    fits = arith.OrIOp(_is(have, want), _is(want, 1)).result
    if not isinstance(have, int):
        fits = arith.OrIOp(fits, _is(have, 1)).result
    cf.AssertOp(fits, MISFIT)


def _is(one: Size, other: Size) -> ir.Value:
    return arith.CmpIOp(arith.CmpIPredicate.eq, index_of(one), index_of(other)).result


def _place(dim: int, size: Size) -> ir.Value:
    """The index in a dimension that is as large as the result's, or 1: its last one at most."""
    from torch_mlir.dialects import linalg  # a tenth of a second, which most models do not need

    if isinstance(size, int) and size == 1:
        return index_of(0)
    index = linalg.IndexOp(dim).result
    if isinstance(size, int):
        return index
    return arith.MinUIOp(index, arith.SubIOp(size, index_of(1)).result).result


def drop_idle_expansions(module: ir.Module) -> None:
    """Take the tensor itself where it is known that nothing is stretched."""
    for op in list(operations(module.operation, "linalg.generic")):
        reads = list(operations(op, "tensor.extract"))
        if INSIDE not in op.attributes or not reads:  # a constant has nothing to read
            continue
        source, result = reads[0].operands[0], op.results[0]
        rank = ir.RankedTensorType(source.type).rank
        if rank == ir.RankedTensorType(result.type).rank and all(
            size_of(source, n) == size_of(result, n) for n in range(rank)
        ):
            with op.location, ir.InsertionPoint(op):
                same = source if source.type == result.type else tensor.CastOp(result.type, source).result
            result.replace_all_uses_with(same)
            op.erase()
