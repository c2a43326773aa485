"""Tensors as the codes of a format whose elements share a scale, from which a contraction converts the same values.

The bytes are the largest magnitude of the tensor (a binary32 number), the exponents of the largest magnitudes of the
groups (16 bits each), and the codes (group_codes.py), all of them in planes (stored_bits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.compiler.arithmetic.groups import GroupConversion
from numc.compiler.arithmetic.stored import group_count, groups_of
from numc.passes import linalg
from numc.passes.explicit.group_codes import MAGNITUDE, exponent, narrowing, widening
from numc.passes.explicit.inlined import inlined
from numc.passes.explicit.stored_bits import codes_of, collapsed, expanded, integer, part, planes_of, put
from numc.passes.kernels.values.group_values import INFINITY

_Body = Callable[..., ir.Value]


def packed_groups(value: ir.Value, stored: str) -> ir.Value:
    """Return the bytes (i8, one dimension) of a tensor of static sizes, made at the insertion point."""
    to, axis = _known(stored)
    shape, bits = _sizes(value), to.format.code_bits
    largest = _largest_of(value, finite=to.format.finite_only)
    kind, narrow, power = integer(8 if bits <= 8 else 16), inlined(narrowing(to)), inlined(exponent())
    planes = planes_of(largest, 32)
    if to.format.group is None:
        codes = _mapped([value, largest], shape, kind, lambda x, most, _: narrow(x, most, most))
        return _concatenated([*planes, *planes_of(codes, bits)])
    parts, exponents = [], []
    for rows in _groups_of(value, axis, to.format.group):
        most = _largest_along(rows)
        exponents.append(collapsed(_mapped([most], _sizes(most), integer(16), lambda x, _: power(x))))
        parts.append(_mapped([rows, most, largest], _sizes(rows), kind, lambda x, m, whole, _: narrow(x, m, whole)))
    codes = _joined(parts, shape, axis)
    planes += planes_of(_concatenated(exponents), 16)
    return _concatenated([*planes, *planes_of(codes, bits)])


def unpacked_groups(data: ir.Value, stored: str, shape: Sequence[int]) -> ir.Value:
    """Return a tensor of float32 of these sizes that has these bytes, made at the insertion point."""
    to, axis = _known(stored)
    bits, count, elements = to.format.code_bits, group_count(to, axis, shape), prod(shape)
    sizes = [1] * 4 + [count] * 2 * (count > 0)
    sizes += [elements] * (bits // 8) + [-(-elements // 8)] * (bits % 8)
    flat, planes, start = collapsed(data), [], 0
    for size in sizes:
        planes.append(part(flat, start, size))
        start += size
    largest = tensor.CollapseShapeOp(ir.RankedTensorType.get([], integer(32)), codes_of(planes[:4], 32, [1]), []).result
    f32, widen = ir.F32Type.get(), inlined(widening(to))
    if to.format.group is None:
        codes = codes_of(planes[4:], bits, shape)
        return _mapped([codes, largest], list(shape), f32, lambda code, most, _: widen(code, most))
    exponents, found, start = codes_of(planes[4:6], 16, [count]), [], 0
    for codes in _groups_of(codes_of(planes[6:], bits, shape), axis, to.format.group):
        outer, groups, _, inner = _sizes(codes)
        some = expanded(part(exponents, start, outer * groups * inner), [outer, groups, inner])
        start += outer * groups * inner
        found.append(_mapped([codes, some, largest], _sizes(codes), f32, lambda c, e, most, _: widen(c, e, most)))
    return _joined(found, shape, axis)


def _known(stored: str) -> tuple[GroupConversion, int]:
    found = groups_of(stored)
    assert found is not None
    return found


def _sizes(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


# Tensors: those with groups are [outer, groups, elements of a group, inner], and what groups have is without the third.


def _groups_of(value: ir.Value, axis: int, group: int) -> list[ir.Value]:
    """The whole groups of a tensor along a dimension, and the last one if it is shorter."""
    shape = _sizes(value)
    outer, steps, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    rows = expanded(collapsed(value), [outer, steps, inner])
    found, whole = [], steps // group * group
    for start, count, size in ((0, whole // group, group), (whole, 1, steps - whole)):
        if not count * size:
            continue
        cut = rows
        if count * size < steps:
            kind = ir.RankedTensorType.get([outer, count * size, inner], ir.RankedTensorType(value.type).element_type)
            where = [0, start, 0], [outer, count * size, inner], [1, 1, 1]
            cut = tensor.ExtractSliceOp(kind, rows, [], [], [], *where).result
        found.append(expanded(collapsed(cut), [outer, count, size, inner]))
    return found


def _joined(parts: Sequence[ir.Value], shape: Sequence[int], axis: int) -> ir.Value:
    """The tensor of these sizes that `_groups_of` has cut."""
    if len(parts) == 1:
        return expanded(collapsed(parts[0]), shape)
    outer, inner, start = prod(shape[:axis]), prod(shape[axis + 1 :]), 0
    kind = ir.RankedTensorType.get([outer, shape[axis], inner], ir.RankedTensorType(parts[0].type).element_type)
    whole = linalg.room(parts[0], kind)
    for each in parts:
        steps = prod(_sizes(each)[1:3])
        rows, where = expanded(collapsed(each), [outer, steps, inner]), ([0, start, 0], [outer, steps, inner])
        whole = tensor.InsertSliceOp(rows, whole, [], [], [], *where, [1, 1, 1]).result
        start += steps
    return expanded(collapsed(whole), shape)


def _concatenated(parts: Sequence[ir.Value]) -> ir.Value:
    """One tensor of one dimension of several."""
    if len(parts) == 1:
        return parts[0]
    sizes = [_sizes(each)[0] for each in parts]
    element = ir.RankedTensorType(parts[0].type).element_type
    whole, start = linalg.room(parts[0], ir.RankedTensorType.get([sum(sizes)], element)), 0
    for each, size in zip(parts, sizes, strict=True):
        whole = put(each, whole, start)
        start += size
    return whole


def _mapped(inputs: Sequence[ir.Value], sizes: list[int], kind: ir.Type, body: _Body) -> ir.Value:
    """An elementwise operation on tensors of these sizes, what groups have, and what a tensor has."""
    dims = [ir.AffineDimExpr.get(n) for n in range(len(sizes))]
    by_rank = {0: [], 3: [d for n, d in enumerate(dims) if n != 2], len(sizes): dims}
    maps = [ir.AffineMap.get(len(sizes), 0, by_rank[len(_sizes(each))]) for each in inputs]
    maps.append(ir.AffineMap.get_identity(len(sizes)))
    room = linalg.room(inputs[0], ir.RankedTensorType.get(sizes, kind))
    return linalg.generic(list(inputs), room, maps, ["parallel"] * len(sizes), body)


def _largest_along(rows: ir.Value) -> ir.Value:
    """The largest magnitudes of groups (i32, encodings)."""
    return _reduced(rows, 2, lambda x: _encoded(x, finite=False))


def _largest_of(value: ir.Value, *, finite: bool) -> ir.Value:
    """The largest magnitude of a tensor, or the largest finite one (i32 without dimensions, an encoding)."""
    shape = _sizes(value)
    rows = expanded(collapsed(value), [prod(shape[:-1]), shape[-1]])
    return _reduced(_reduced(rows, 0, lambda x: _encoded(x, finite=finite)), 0, lambda x: x)


def _reduced(value: ir.Value, dim: int, body: _Body) -> ir.Value:
    """The maxima of what a body makes of the elements, as unsigned integers, along a dimension."""
    shape, i32 = _sizes(value), integer(32)
    dims = [ir.AffineDimExpr.get(n) for n in range(len(shape))]
    left = [d for n, d in enumerate(dims) if n != dim]
    kind = ir.RankedTensorType.get([size for n, size in enumerate(shape) if n != dim], i32)
    zero = arith.ConstantOp(i32, 0).result
    zeros = linalg.filled(linalg.room(value, kind), zero)
    maps = [ir.AffineMap.get_identity(len(shape)), ir.AffineMap.get(len(shape), 0, left)]
    kinds = ["reduction" if n == dim else "parallel" for n in range(len(shape))]
    return linalg.generic([value], zeros, maps, kinds, lambda x, most: arith.MaxUIOp(most, body(x)).result)


def _encoded(x: ir.Value, *, finite: bool) -> ir.Value:
    """The encoding of a magnitude; 0 for what is not finite if only finite ones count."""
    i32 = integer(32)
    bits = arith.AndIOp(arith.BitcastOp(i32, x).result, arith.ConstantOp(i32, MAGNITUDE).result).result
    if not finite:
        return bits
    known = arith.CmpIOp(arith.CmpIPredicate.ult, bits, arith.ConstantOp(i32, INFINITY).result).result
    return arith.SelectOp(known, bits, arith.ConstantOp(i32, 0).result).result
