"""Tensors of bool as bits, in planes (compiler/arithmetic/stored.py), and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.compiler.arithmetic.stored import BITS, stored_shape
from numc.passes import linalg

_PLANES = 8


def packed(value: ir.Value) -> ir.Value:
    """Return the bits (i8) of a tensor of i1 of static sizes, made at the insertion point."""
    shape = ir.RankedTensorType(value.type).shape
    elements, stored = prod(shape), stored_shape(BITS, shape)
    size, i8 = stored[-1], _integer(8)
    flat = _collapsed(value)
    if elements < _PLANES * size:  # the last plane is shorter
        longer = ir.RankedTensorType.get([_PLANES * size], flat.type.element_type)
        zero = arith.ConstantOp(longer.element_type, 0).result
        identity = [ir.AffineMap.get_identity(1)]
        zeros = linalg.generic([], linalg.room(flat, longer), identity, ["parallel"], lambda _: zero)
        flat = tensor.InsertSliceOp(flat, zeros, [], [], [], [0], [elements], [1]).result
    planes = [_part(flat, n * size, size) for n in range(_PLANES)]

    def joined(*bits: ir.Value) -> ir.Value:
        result = arith.ExtUIOp(i8, bits[0]).result
        for n in range(1, _PLANES):
            bit = arith.ShLIOp(arith.ExtUIOp(i8, bits[n]).result, arith.ConstantOp(i8, n).result).result
            result = arith.OrIOp(result, bit).result
        return result

    maps = [ir.AffineMap.get_identity(1)] * (_PLANES + 1)
    made = linalg.generic(planes, linalg.room(flat, ir.RankedTensorType.get([size], i8)), maps, ["parallel"], joined)
    return _expanded(made, stored)


def unpacked(bits: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Return the tensor of i1 of these sizes that has these bits, made at the insertion point."""
    elements, (size,) = prod(shape), ir.RankedTensorType(bits.type).shape[-1:]
    i1, i8 = _integer(1), _integer(8)

    def bit(byte: ir.Value, _: ir.Value) -> ir.Value:
        dim = ir.IntegerAttr.get(_integer(64), 0)
        plane = ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes={"dim": dim}).result
        return arith.TruncIOp(i1, arith.ShRUIOp(byte, arith.IndexCastOp(i8, plane).result).result).result

    maps = [ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(1)]), ir.AffineMap.get_identity(2)]
    room = linalg.room(bits, ir.RankedTensorType.get([_PLANES, size], i1))
    found = _collapsed(linalg.generic([_collapsed(bits)], room, maps, ["parallel"] * 2, bit))
    if elements < _PLANES * size:
        found = _part(found, 0, elements)
    return _expanded(found, shape)


def _integer(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


def _collapsed(value: ir.Value) -> ir.Value:
    """A tensor of static sizes as one of one dimension."""
    kind = ir.RankedTensorType(value.type)
    if kind.rank == 1:
        return value
    one = ir.RankedTensorType.get([prod(kind.shape)], kind.element_type)
    return tensor.CollapseShapeOp(one, value, [list(range(kind.rank))] if kind.rank else []).result


def _expanded(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A tensor of one dimension as one of these sizes."""
    if len(shape) == 1:
        return value
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    return tensor.ExpandShapeOp(kind, value, [list(range(len(shape)))], [], list(shape)).result


def _part(value: ir.Value, offset: int, size: int) -> ir.Value:
    """Elements of a tensor of one dimension."""
    kind = ir.RankedTensorType.get([size], ir.RankedTensorType(value.type).element_type)
    return tensor.ExtractSliceOp(kind, value, [], [], [], [offset], [size], [1]).result
