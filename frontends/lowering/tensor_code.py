"""Short pieces of code on tensors, of which operators and sorts are made as loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, tensor

from numc.passes.linalg import generic

Size: TypeAlias = "int | ir.Value"
DYNAMIC = ir.ShapedType.get_dynamic_size()


def repeat(
    count: ir.Value, start: Sequence[ir.Value], step: Callable[[ir.Value, Sequence[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """Return what the values `start` have become after `count` steps."""
    loop = scf.ForOp(index_of(0), count, index_of(1), list(start))
    with ir.InsertionPoint(loop.body):
        scf.YieldOp(step(loop.induction_variable, list(loop.inner_iter_args)))
    return list(loop.results)


def index_of(number: Size) -> ir.Value:
    """A size as a value."""
    return arith.ConstantOp(ir.IndexType.get(), number).result if isinstance(number, int) else number


def sizes_of(value: ir.Value) -> list[Size]:
    """The sizes of a tensor, numbers where they are fixed."""
    shape = ir.RankedTensorType(value.type).shape
    return [int(s) if s != DYNAMIC else tensor.DimOp(value, index_of(n)).result for n, s in enumerate(shape)]


def part(value: ir.Value, offsets: Sequence[Size], sizes: Sequence[Size]) -> ir.Value:
    """The part of a tensor that begins at `offsets` and has `sizes`."""
    tensor_type = ir.RankedTensorType(value.type)
    result = ir.RankedTensorType.get(_static(sizes), tensor_type.element_type)
    strides = [1] * tensor_type.rank
    return tensor.ExtractSliceOp(
        result, value, dynamic(offsets), dynamic(sizes), [], _static(offsets), _static(sizes), strides
    ).result


def put_part(piece: ir.Value, value: ir.Value, offsets: Sequence[Size]) -> ir.Value:
    """`value` with the part that begins at `offsets` replaced by `piece`."""
    sizes = sizes_of(piece)
    strides = [1] * len(sizes)
    return tensor.InsertSliceOp(
        piece, value, dynamic(offsets), dynamic(sizes), [], _static(offsets), _static(sizes), strides
    ).result


def _static(sizes: Sequence[Size]) -> list[int]:
    return [size if isinstance(size, int) else DYNAMIC for size in sizes]


def dynamic(sizes: Sequence[Size]) -> list[ir.Value]:
    """Those sizes that a run knows."""
    return [size for size in sizes if not isinstance(size, int)]


def elementwise(
    body: Callable[..., ir.Value], operands: Sequence[ir.Value], element: ir.Type | None = None
) -> ir.Value:
    """A linalg.generic of `body` on the elements of tensors of the same shape. element: of the result, if another."""
    tensor_type = ir.RankedTensorType(operands[0].type)
    tensor_type = ir.RankedTensorType.get(tensor_type.shape, element or tensor_type.element_type)
    empty = tensor.EmptyOp(sizes_of(operands[0]), tensor_type.element_type).result
    maps = [ir.AffineMap.get_identity(tensor_type.rank)] * (len(operands) + 1)
    return generic(operands, empty, maps, ["parallel"] * tensor_type.rank, lambda *elements: body(*elements[:-1]))


def inlined(block: ir.Block, arguments: Sequence[ir.Value]) -> ir.Value:
    """Write the operations of a block again with these values of its arguments; return the value that it yields."""
    values = dict(zip(block.arguments, arguments, strict=True))
    for inner in block.operations:
        if inner.operation.name == "tm_tensor.yield":
            return values.get(inner.operands[0], inner.operands[0])
        copy = inner.operation.clone()
        for n, operand in enumerate(copy.operands):
            copy.operands[n] = values.get(operand, operand)
        values |= dict(zip(inner.operation.results, copy.results, strict=True))
    raise AssertionError("a block without an end")


def filled(number: ir.Value, sizes: Sequence[Size]) -> ir.Value:
    """A tensor of these sizes with a number in every place."""
    from torch_mlir.dialects import linalg  # a tenth of a second, which most models do not need

    return linalg.fill(number, outs=[tensor.EmptyOp(sizes, number.type).result])
