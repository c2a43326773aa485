"""Codes of a few bits in planes of bytes and of bits (numerics/stored.py), and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.passes import linalg

_RUNS = 8


def planes_of(codes: ir.Value, bits: int) -> list[ir.Value]:
    """Return the planes of the lowest bits of codes, integers of static sizes: each is bytes of one dimension."""
    flat = collapsed(codes)
    flat_type = ir.RankedTensorType(flat.type)
    planes = [_byte(flat, n) for n in range(bits // 8)]
    size = -(-flat_type.shape[0] // _RUNS)
    if bits % 8 and flat_type.shape[0] < _RUNS * size:  # the last run is shorter
        longer = ir.RankedTensorType.get([_RUNS * size], flat_type.element_type)
        zero = arith.ConstantOp(longer.element_type, 0).result
        zeros = linalg.filled(linalg.room(flat, longer), zero)
        flat = put(flat, zeros, 0)
    runs = [part(flat, n * size, size) for n in range(_RUNS)] if bits % 8 else []
    return planes + [_joined(runs, size, bit) for bit in range(bits // 8 * 8, bits)]


def _byte(codes: ir.Value, number: int) -> ir.Value:
    """A byte of every code."""
    tensor_type = ir.RankedTensorType(codes.type)
    if tensor_type.element_type == integer(8):
        return codes

    def byte(x: ir.Value, _: ir.Value) -> ir.Value:
        return arith.TruncIOp(integer(8), _shifted_right(x, 8 * number)).result

    room = linalg.room(codes, ir.RankedTensorType.get(tensor_type.shape, integer(8)))
    return linalg.generic([codes], room, _identities(2), ["parallel"], byte)


def _joined(runs: list[ir.Value], size: int, bit: int) -> ir.Value:
    """The plane of a bit."""
    i8 = integer(8)

    def joined(*codes: ir.Value) -> ir.Value:
        result = arith.ConstantOp(i8, 0).result
        for n, code in enumerate(codes[:_RUNS]):
            lowest_bit = _as_byte(_shifted_right(code, bit))
            if code.type != integer(1):
                lowest_bit = arith.AndIOp(lowest_bit, arith.ConstantOp(i8, 1).result).result
            result = arith.OrIOp(result, arith.ShLIOp(lowest_bit, arith.ConstantOp(i8, n).result).result).result
        return result

    room = linalg.room(runs[0], ir.RankedTensorType.get([size], i8))
    return linalg.generic(runs, room, _identities(_RUNS + 1), ["parallel"], joined)


def codes_of(planes: Sequence[ir.Value], bits: int, shape: Sequence[int]) -> ir.Value:
    """Return the codes that have these planes, as integers of 1, 8, 16 or 32 bits."""
    elements, code_type = prod(shape), integer(next(width for width in (1, 8, 16, 32) if width >= bits))
    byte_planes = list(planes[: bits // 8])
    if bits % 8:
        byte_planes.append(_joined_bits(planes[bits // 8 :], elements, integer(1 if bits == 1 else 8)))
    if len(byte_planes) == 1:
        return expanded(byte_planes[0], shape)

    def joined(*values: ir.Value) -> ir.Value:
        result = arith.ExtUIOp(code_type, values[0]).result
        for n, byte in enumerate(values[1:-1], 1):
            shifted = arith.ShLIOp(
                arith.ExtUIOp(code_type, byte).result, arith.ConstantOp(code_type, 8 * n).result
            ).result
            result = arith.OrIOp(result, shifted).result
        return result

    room = linalg.room(byte_planes[0], ir.RankedTensorType.get([elements], code_type))
    return expanded(linalg.generic(byte_planes, room, _identities(len(byte_planes) + 1), ["parallel"], joined), shape)


def _joined_bits(planes: Sequence[ir.Value], elements: int, kind: ir.Type) -> ir.Value:
    """The codes of planes of bits, the lowest first, as i8, or as i1 if there is one plane."""
    (size,) = ir.RankedTensorType(planes[0].type).shape
    i8 = integer(8)

    def joined(*values: ir.Value) -> ir.Value:
        dim = ir.IntegerAttr.get(integer(64), 0)
        run = ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes={"dim": dim}).result
        shift = arith.IndexCastOp(i8, run).result
        result = arith.ConstantOp(i8, 0).result
        for n, byte in enumerate(values[: len(planes)]):
            bit = arith.ShRUIOp(byte, shift).result
            if kind == integer(1):
                return arith.TruncIOp(kind, bit).result
            bit = arith.AndIOp(bit, arith.ConstantOp(i8, 1).result).result
            result = arith.OrIOp(result, arith.ShLIOp(bit, arith.ConstantOp(i8, n).result).result).result
        return result

    across = ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(1)])
    room = linalg.room(planes[0], ir.RankedTensorType.get([_RUNS, size], kind))
    maps = [*[across] * len(planes), ir.AffineMap.get_identity(2)]
    codes = collapsed(linalg.generic(list(planes), room, maps, ["parallel"] * 2, joined))
    return codes if elements == _RUNS * size else part(codes, 0, elements)


def integer(bits: int) -> ir.Type:
    """The type of integers of so many bits."""
    return ir.IntegerType.get_signless(bits)


def collapsed(value: ir.Value) -> ir.Value:
    """A tensor of static sizes as one of one dimension."""
    tensor_type = ir.RankedTensorType(value.type)
    if tensor_type.rank == 1:
        return value
    flat_type = ir.RankedTensorType.get([prod(tensor_type.shape)], tensor_type.element_type)
    if tensor_type.rank == 0:
        return tensor.ExpandShapeOp(flat_type, value, [], [], [1]).result
    return tensor.CollapseShapeOp(flat_type, value, [list(range(tensor_type.rank))]).result


def expanded(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A tensor of one dimension as one of these sizes."""
    if len(shape) == 1:
        return value
    expanded_type = ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)
    return tensor.ExpandShapeOp(expanded_type, value, [list(range(len(shape)))], [], list(shape)).result


def part(value: ir.Value, offset: int, size: int) -> ir.Value:
    """Elements of a tensor of one dimension."""
    part_type = ir.RankedTensorType.get([size], ir.RankedTensorType(value.type).element_type)
    return tensor.ExtractSliceOp(part_type, value, [], [], [], [offset], [size], [1]).result


def put(value: ir.Value, whole: ir.Value, offset: int) -> ir.Value:
    """A tensor of one dimension with the elements of another one in place of its own, from an offset on."""
    return tensor.InsertSliceOp(
        value, whole, [], [], [], [offset], list(ir.RankedTensorType(value.type).shape), [1]
    ).result


def _identities(count: int) -> list[ir.AffineMap]:
    return [ir.AffineMap.get_identity(1)] * count


def _shifted_right(value: ir.Value, by: int) -> ir.Value:
    return arith.ShRUIOp(value, arith.ConstantOp(value.type, by).result).result if by else value


def _as_byte(value: ir.Value) -> ir.Value:
    width = ir.IntegerType(value.type).width
    if width == 8:
        return value
    return arith.ExtUIOp(integer(8), value).result if width < 8 else arith.TruncIOp(integer(8), value).result
