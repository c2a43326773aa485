"""Scattered writes: conversion of all of them to one form, and of that form to a loop that writes row after row.

In that form, ``index_put`` takes a matrix, a vector of row numbers, and one row for each of them. Rows are written or
added in their order. So the bits do not depend on the number of threads, additions are rounded like those of any other
operation, and of several writes to one place the last one stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch_mlir import ir
from torch_mlir.dialects import arith, cf, linalg, scf, tensor

from numc.frontends.lowering import operations

aten = torch.ops.aten
DYNAMIC = ir.ShapedType.get_dynamic_size()


def index_put(
    value: torch.Tensor, indices: Sequence[torch.Tensor | None], new: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """aten.index_put, as rows over the indexed dimensions.

    A mask is converted only if it writes a single number.
    """
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for _, i in given):
        if accumulate or new.numel() != 1 or len(indices) != 1:
            return NotImplemented
        mask = given[0][1]
        mask = mask.bool().reshape([*mask.shape, *[1] * (value.dim() - mask.dim())])
        return torch.where(mask, new.reshape([]), value)
    dims = [d for d, _ in given]
    if is_rows(value, indices, new) or value.numel() == 0 or new.numel() == 0:
        return NotImplemented
    places = torch.broadcast_tensors(*(i.long() for _, i in given))
    rest = [d for d in range(value.dim()) if d not in dims]
    # In the values, torch puts the dimensions of the indices in their place, or first if they are not adjacent.
    at = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    shape = [value.shape[d] for d in rest]
    new = new.expand([*shape[:at], *places[0].shape, *shape[at:]])
    inner = range(at, at + places[0].dim())
    new = new.permute([*inner, *(d for d in range(new.dim()) if d not in inner)])
    sizes = [value.shape[d] for d in dims]
    rows = value.permute([*dims, *rest]).reshape([math.prod(sizes), math.prod(shape)])
    found = aten.index_put(rows, [_row(places, sizes)], new.reshape([-1, math.prod(shape)]), accumulate)
    order = [*dims, *rest]
    return found.reshape([*sizes, *shape]).permute([order.index(d) for d in range(value.dim())])


def is_rows(value: torch.Tensor, indices: Sequence[torch.Tensor | None], new: torch.Tensor) -> bool:
    """Whether an index_put has the form that `to_loops` takes."""
    if value.dim() != 2 or len(indices) != 1 or indices[0] is None or indices[0].dim() != 1:
        return False
    return indices[0].dtype == torch.int64 and list(new.shape) == [indices[0].shape[0], value.shape[1]]


def _row(places: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    """Return the number of a row from its indices, which may be negative; it is out of range if one index is."""
    if len(places) == 1:
        return places[0].reshape([-1])
    total = None
    right = None
    for place, size in zip(places, sizes, strict=True):
        here = torch.where(place < 0, place + size, place)
        inside = (here >= 0) & (here < size)
        total = here if total is None else total * size + here
        right = inside if right is None else right & inside
    assert total is not None
    assert right is not None
    return torch.where(right, total, math.prod(sizes)).reshape([-1])


def _along(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """Write every element of `new` at its own position, with its value in `index` as coordinate `dim`.

    `index` and `new` have the same shape.
    """
    if value.dim() == 0:
        return _along(value.reshape([1]), 0, index.reshape([-1]), new.reshape([-1]), accumulate).reshape([])
    dim %= value.dim()
    new = new[tuple(slice(n) for n in index.shape)]
    places = []
    for d, size in enumerate(index.shape):
        shape = [1] * index.dim()
        shape[d] = size
        places.append(index if d == dim else torch.arange(size).reshape(shape))
    return index_put(value, places, new, accumulate)


def scatter(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """aten.scatter.src."""
    return _along(value, dim, index, new, accumulate=False)


def scatter_value(value: torch.Tensor, dim: int, index: torch.Tensor, number: Any) -> torch.Tensor:
    """aten.scatter.value."""
    return _along(value, dim, index, torch.full(index.shape, number, dtype=value.dtype), accumulate=False)


def scatter_add(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """aten.scatter_add."""
    return _along(value, dim, index, new, accumulate=True)


def put(value: torch.Tensor, index: torch.Tensor, new: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    """aten.put."""
    rows = aten.index_put(value.reshape([-1, 1]), [index.reshape([-1])], new.reshape([-1, 1]), accumulate)
    return rows.reshape(value.shape)


def to_loops(module: ir.Module) -> None:
    """Rewrite every tm_tensor.scatter of rows in `module`, in place; other scatters stay."""
    for op in operations(module):
        if op.name == "tm_tensor.scatter":
            with module.context, op.location:
                _to_loop(op.operation)


def _to_loop(op: ir.Operation) -> None:
    new, places, start = op.operands
    shapes = [ir.RankedTensorType(v.type).shape for v in op.operands]
    if [len(s) for s in shapes] != [3, 2, 2] or shapes[0][1] != 1 or shapes[1][1] != 1:
        return
    if any(DYNAMIC in s for s in shapes):
        return
    (count, _, width), (height, _) = shapes[0], shapes[2]
    element = ir.RankedTensorType(start.type).element_type
    row = ir.RankedTensorType.get([width], element)
    with ir.InsertionPoint(op):
        zero, one, end, size = (arith.ConstantOp(ir.IndexType.get(), n).result for n in (0, 1, count, height))
        loop = scf.ForOp(zero, end, one, [_writable(start)])
        with ir.InsertionPoint(loop.body):
            (rows,) = loop.inner_iter_args
            place = tensor.ExtractOp(places, [loop.induction_variable, zero]).result
            place = arith.IndexCastOp(ir.IndexType.get(), place).result
            # A negative index counts from the end.
            wrapped = arith.AddIOp(place, size).result
            negative = arith.CmpIOp(arith.CmpIPredicate.slt, place, zero).result
            place = arith.SelectOp(negative, wrapped, place).result
            cf.AssertOp(arith.CmpIOp(arith.CmpIPredicate.ult, place, size).result, "an index is out of range")
            before = _slice(rows, [place], [1, width], row)
            added = _slice(new, [loop.induction_variable], [1, 1, width], row)
            identity = ir.AffineMap.get_identity(1)
            generic = linalg.GenericOp(
                [row],
                [added],
                [before],
                ir.ArrayAttr.get([ir.AffineMapAttr.get(identity)] * 2),
                ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")]),
            )
            body = generic.regions[0].blocks.append(element, element)
            values = dict(zip(op.regions[0].blocks[0].arguments, body.arguments, strict=True))
            with ir.InsertionPoint(body):
                for inner in op.regions[0].blocks[0].operations:
                    if inner.operation.name == "tm_tensor.yield":
                        linalg.YieldOp([values.get(inner.operands[0], inner.operands[0])])
                        break
                    copy = inner.operation.clone()
                    for n, operand in enumerate(copy.operands):
                        copy.operands[n] = values.get(operand, operand)
                    values |= dict(zip(inner.operation.results, copy.results, strict=True))
            after = tensor.InsertSliceOp(
                generic.results[0], rows, [place], [], [], [ir.ShapedType.get_dynamic_size(), 0], [1, width], [1, 1]
            ).result
            scf.YieldOp([after])
    op.results[0].replace_all_uses_with(loop.results[0])
    op.erase()


def _slice(value: ir.Value, place: list[ir.Value], sizes: list[int], row: ir.Type) -> ir.Value:
    offsets = [ir.ShapedType.get_dynamic_size(), *[0] * (len(sizes) - 1)]
    return tensor.ExtractSliceOp(row, value, place, [], [], offsets, sizes, [1] * len(sizes)).result


def _writable(start: ir.Value) -> ir.Value:
    """Return the initial value of a loop; a splat is not made a constant of the size of the tensor."""
    owner = start.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return start
    content = owner.attributes["value"]
    if not isinstance(content, ir.DenseElementsAttr) or not content.is_splat:
        return start
    kind = ir.RankedTensorType(start.type)
    number = arith.ConstantOp(kind.element_type, content.get_splat_value()).result
    empty = tensor.EmptyOp(kind.shape, kind.element_type).result
    return linalg.fill(number, outs=[empty])
