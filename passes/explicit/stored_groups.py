"""Tensors as the codes of a format whose elements share a scale, from which a contraction converts the same values.

The bytes are the largest magnitude of the tensor (a binary32 number), the exponents of the largest magnitudes of the
groups (16 bits each), and the codes (group_codes.py), all of them in planes (stored_bits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.numerics.binary32 import INFINITY
from numc.numerics.groups import GroupConversion
from numc.numerics.stored import group_count, groups_of
from numc.passes import linalg
from numc.passes.explicit.group_codes import MAGNITUDE, exponent, narrowing, widening
from numc.passes.explicit.inlined import inlined
from numc.passes.explicit.stored_bits import codes_of, collapsed, expanded, integer, part, planes_of, put

_Body = Callable[..., ir.Value]


def packed_groups(value: ir.Value, stored: str) -> ir.Value:
    """Return the bytes (i8, one dimension) of a tensor of static sizes, made at the insertion point."""
    to, axes = _known(stored)
    shape, bits = _sizes(value), to.format.code_bits
    largest = _largest_of(value, finite=to.format.finite_only)
    code_type, narrow, power = integer(8 if bits <= 8 else 16), inlined(narrowing(to)), inlined(exponent())
    planes = planes_of(largest, 32)
    if to.format.group is None:
        codes = _mapped([value, largest], shape, code_type, lambda x, most, _: narrow(x, most, most))
        return _concatenated([*planes, *planes_of(codes, bits)])
    parts, exponents = [], []
    layout = _Layout.of(shape, axes)
    for rows in _groups_of(layout.lines(value), to.format.group):
        most = _largest_along(rows)
        exponents.append(collapsed(_mapped([most], _sizes(most), integer(16), lambda x, _: power(x))))
        parts.append(
            _mapped([rows, most, largest], _sizes(rows), code_type, lambda x, m, whole, _: narrow(x, m, whole))
        )
    codes = _joined(parts)
    planes += planes_of(_concatenated(exponents), 16)
    return _concatenated([*planes, *planes_of(codes, bits)])


def unpacked_groups(data: ir.Value, stored: str, shape: Sequence[int]) -> ir.Value:
    """Return a tensor of float32 of these sizes that has these bytes, made at the insertion point."""
    to, axes = _known(stored)
    bits, count, elements = to.format.code_bits, group_count(to, axes, shape), prod(shape)
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
    exponents, parts, start = codes_of(planes[4:6], 16, [count]), [], 0
    layout = _Layout.of(shape, axes)
    for codes in _groups_of(codes_of(planes[6:], bits, layout.sizes), to.format.group):
        outer, groups, _, inner = _sizes(codes)
        some = expanded(part(exponents, start, outer * groups * inner), [outer, groups, inner])
        start += outer * groups * inner
        parts.append(_mapped([codes, some, largest], _sizes(codes), f32, lambda c, e, most, _: widen(c, e, most)))
    return layout.tensor(_joined(parts))


@dataclass(frozen=True)
class _Layout:
    """Where the groups of a tensor are: lines are [outer, steps, inner], with groups along the steps.

    order: the dimensions of the tensor in the order in which lines have them, shape: their sizes in this order.
    """

    order: tuple[int, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, int, int]

    @staticmethod
    def of(shape: Sequence[int], axes: tuple[int, ...]) -> _Layout:
        """Neighbouring dimensions stay where they are; others become the last ones."""
        first, steps = axes[0], prod(shape[axis] for axis in axes)
        order = tuple(range(len(shape)))
        if axes == order[first : first + len(axes)]:
            return _Layout(order, tuple(shape), (prod(shape[:first]), steps, prod(shape[first + len(axes) :])))
        order = (*(d for d in order if d not in axes), *axes)
        return _Layout(order, tuple(shape[d] for d in order), (prod(shape) // steps, steps, 1))

    def lines(self, value: ir.Value) -> ir.Value:
        """The lines of a tensor."""
        return expanded(collapsed(_permuted(value, self.order)), self.sizes)

    def tensor(self, lines: ir.Value) -> ir.Value:
        """The tensor of lines."""
        back = tuple(self.order.index(d) for d in range(len(self.order)))
        return _permuted(expanded(collapsed(lines), self.shape), back)


def _permuted(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """A tensor whose dimensions are these of a value, in this order."""
    if list(order) == sorted(order):
        return value
    tensor_type, shape = ir.RankedTensorType(value.type), _sizes(value)
    to = ir.RankedTensorType.get([shape[d] for d in order], tensor_type.element_type)
    read = ir.AffineMap.get_permutation([list(order).index(d) for d in range(tensor_type.rank)])
    maps = [read, ir.AffineMap.get_identity(tensor_type.rank)]
    return linalg.generic([value], linalg.room(value, to), maps, ["parallel"] * tensor_type.rank, lambda x, _: x)


def _known(stored: str) -> tuple[GroupConversion, tuple[int, ...]]:
    grouping = groups_of(stored)
    assert grouping is not None
    return grouping


def _sizes(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


# Tensors: those with groups are [outer, groups, elements of a group, inner], and what groups have is without the third.


def _groups_of(lines: ir.Value, group: int) -> list[ir.Value]:
    """The whole groups of lines, and the last ones if they are shorter."""
    outer, steps, inner = _sizes(lines)
    groups, whole = [], steps // group * group
    for start, count, size in ((0, whole // group, group), (whole, 1, steps - whole)):
        if not count * size:
            continue
        cut = lines
        if count * size < steps:
            cut_type = ir.RankedTensorType.get(
                [outer, count * size, inner], ir.RankedTensorType(lines.type).element_type
            )
            where = [0, start, 0], [outer, count * size, inner], [1, 1, 1]
            cut = tensor.ExtractSliceOp(cut_type, lines, [], [], [], *where).result
        groups.append(expanded(collapsed(cut), [outer, count, size, inner]))
    return groups


def _joined(parts: Sequence[ir.Value]) -> ir.Value:
    """The lines that `_groups_of` has cut."""
    lines = []
    for each in parts:
        outer, count, size, inner = _sizes(each)
        lines.append(expanded(collapsed(each), [outer, count * size, inner]))
    if len(lines) == 1:
        return lines[0]
    steps, start = sum(_sizes(each)[1] for each in lines), 0
    whole_type = ir.RankedTensorType.get([outer, steps, inner], ir.RankedTensorType(lines[0].type).element_type)
    whole = linalg.room(lines[0], whole_type)
    for each in lines:
        where = [0, start, 0], _sizes(each), [1, 1, 1]
        whole = tensor.InsertSliceOp(each, whole, [], [], [], *where).result
        start += _sizes(each)[1]
    return whole


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
    reduced_type = ir.RankedTensorType.get([size for n, size in enumerate(shape) if n != dim], i32)
    zero = arith.ConstantOp(i32, 0).result
    zeros = linalg.filled(linalg.room(value, reduced_type), zero)
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
