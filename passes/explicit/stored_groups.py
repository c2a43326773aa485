"""Tensors as the codes of a format whose elements share a scale, from which a contraction converts the same values.

The bytes are the largest magnitude of the tensor (a binary32 number), the exponents of the largest magnitudes of the
groups (16 bits each), and the codes, all of them in planes (stored_bits.py). A code is how many units of its group an
element becomes. One that becomes none but is positive has the least code. In a group that is not finite, which a
contraction takes for NaN as a whole, codes only say what kind of number an element is.

What is made of these bytes is in the format, so that converting it changes nothing, and the conversion sees the same
largest magnitudes: those of groups have the same exponents, and that of the tensor is the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from numc.compiler.arithmetic.groups import GroupConversion
from numc.compiler.arithmetic.stored import code_bits, group_count, groups_of
from numc.passes import linalg
from numc.passes.explicit.stored_bits import codes_of, collapsed, expanded, integer, part, planes_of, put
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import INFINITY, NAN, GroupCode, Scaling, emit_exponent, scale_up
from numc.passes.kernels.values.kinds import code_of

LEAST = 2.0**-149
"""A positive float32 that every rounding makes zero that makes any positive number zero."""
_NOT_FINITE = 0x7FFF  # in place of the exponent of a group
_POSITIVE, _NAN, _INFINITE = 1, 2, 3  # codes of such a group; 0 is any other finite number
_MAGNITUDE = 0x7FFFFFFF
_Body = Callable[..., ir.Value]


def packed_groups(value: ir.Value, stored: str) -> ir.Value:
    """Return the bytes (i8, one dimension) of a tensor of static sizes, made at the insertion point."""
    to, axis = _known(stored)
    shape, bits = list(ir.RankedTensorType(value.type).shape), code_bits(to)
    largest = _largest_of(value, finite=to.format.finite_only)
    kind, narrow = integer(8 if bits <= 8 else 16), inlined(_narrowing(to))
    planes = planes_of(largest, 32)
    if to.format.group is None:
        codes = _mapped([value, largest], shape, kind, lambda x, most, _: narrow(x, most, most))
        return _concatenated([*planes, *planes_of(codes, bits)])
    parts, exponents = [], []
    for rows in _groups_of(value, axis, to.format.group):
        most = _largest_along(rows)
        sizes = list(ir.RankedTensorType(most.type).shape)
        exponents.append(collapsed(_mapped([most], sizes, integer(16), lambda x, _: _exponent(x))))
        parts.append(_mapped([rows, most, largest], _sizes(rows), kind, lambda x, m, whole, _: narrow(x, m, whole)))
    codes = _joined(parts, shape, axis)
    planes += planes_of(_concatenated(exponents), 16)
    return _concatenated([*planes, *planes_of(codes, bits)])


def unpacked_groups(data: ir.Value, stored: str, shape: Sequence[int]) -> ir.Value:
    """Return a tensor of float32 of these sizes that has these bytes, made at the insertion point."""
    to, axis = _known(stored)
    bits, count, elements = code_bits(to), group_count(to, axis, shape), prod(shape)
    sizes = [1] * 4 + [count] * 2 * (count > 0)
    sizes += [elements] * (bits // 8) + [-(-elements // 8)] * (bits % 8)
    flat, planes, start = collapsed(data), [], 0
    for size in sizes:
        planes.append(part(flat, start, size))
        start += size
    largest = tensor.CollapseShapeOp(ir.RankedTensorType.get([], integer(32)), codes_of(planes[:4], 32, [1]), []).result
    f32, widen = ir.F32Type.get(), inlined(_widening(to))
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


def inlined(text: str) -> _Body:
    """Return what the function of a text does, put where it is called."""
    module = ir.Module.parse(text)

    def put_in(*given: ir.Value) -> ir.Value:
        source = module.body.operations[0].operation.regions[0].blocks[0]
        values = dict(zip(source.arguments, given, strict=True))
        (result,) = linalg.copy_body(source, ir.InsertionPoint.current, values)
        return result

    return put_in


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
    by_rank = {len(sizes): dims, 3: [d for n, d in enumerate(dims) if n != 2], 0: []} | {len(sizes): dims}
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
    identity, parallel = [ir.AffineMap.get_identity(kind.rank)], ["parallel"] * kind.rank
    zeros = linalg.generic([], linalg.room(value, kind), identity, parallel, lambda _: zero)
    maps = [ir.AffineMap.get_identity(len(shape)), ir.AffineMap.get(len(shape), 0, left)]
    kinds = ["reduction" if n == dim else "parallel" for n in range(len(shape))]
    return linalg.generic([value], zeros, maps, kinds, lambda x, most: arith.MaxUIOp(most, body(x)).result)


def _encoded(x: ir.Value, *, finite: bool) -> ir.Value:
    """The encoding of a magnitude; 0 for what is not finite if only finite ones count."""
    i32 = integer(32)
    bits = arith.AndIOp(arith.BitcastOp(i32, x).result, arith.ConstantOp(i32, _MAGNITUDE).result).result
    if not finite:
        return bits
    known = arith.CmpIOp(arith.CmpIPredicate.ult, bits, arith.ConstantOp(i32, INFINITY).result).result
    return arith.SelectOp(known, bits, arith.ConstantOp(i32, 0).result).result


# Elements.


def _exponent(magnitude: ir.Value) -> ir.Value:
    code = Function("exponent", {"x": "i32"}, "i16", attributes="")
    is_finite = code.compare("ult", code["x"], code.int(INFINITY))
    found = code.select(is_finite, emit_exponent(code, code["x"]), code.int(_NOT_FINITE))
    return inlined(code.function(code.cast("trunci", found, "i16")))(magnitude)


def _scaling(code: Code, kind: GroupCode, most: Value, largest: Value) -> Scaling:
    return kind.scaling(code, most, kind.shared(code, largest))


def _narrowing(to: GroupConversion) -> str:
    """A function from an element, the largest magnitude of its group and that of its tensor to its code."""
    bits, kind = code_bits(to), code_of(to)
    word = "i8" if bits <= 8 else "i16"
    code = Function("narrow", {"x": "f32", "most": "i32", "largest": "i32"}, word, attributes="")
    x, most = code["x"], code["most"]
    units = kind.units(code, x, _scaling(code, kind, most, code["largest"]), None)
    number = code.cast("fptosi", units, "i32")
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(_MAGNITUDE))
    is_positive = code.compare("ogt", x, code.f32(0.0))

    def signed(value: int) -> Value:
        return code.select(is_positive, code.int(value), code.int(-value & 0xFFFFFFFF))

    if to.format.group is None:
        # The scale is made from the largest magnitude, which the largest code stands for.
        number = code.select(code.compare("eq", magnitude, most), signed(to.format.most_units), number)
    is_lost = code.binary("andi", is_positive, code.compare("eq", number, code.int(0)))
    number = code.select(is_lost, code.int(-(1 << bits - 1) & 0xFFFFFFFF), number)
    other = code.select(is_positive, code.int(_POSITIVE), code.int(0))
    other = code.select(code.compare("eq", magnitude, code.int(INFINITY)), signed(_INFINITE), other)
    other = code.select(code.compare("ugt", magnitude, code.int(INFINITY)), code.int(_NAN), other)
    number = code.select(code.compare("ult", most, code.int(INFINITY)), number, other)
    return code.function(code.cast("trunci", number, word))


def _widening(to: GroupConversion) -> str:
    """A function from a code, the exponent of its group if there is one, and the largest magnitude to an element."""
    bits, kind = code_bits(to), code_of(to)
    has_groups = to.format.group is not None
    given = {"exponent": "i16"} if has_groups else {}
    word = "i8" if bits <= 8 else "i16"
    code = Function("widen", {"x": word, **given, "largest": "i32"}, "f32", attributes="")
    largest, unused = code["largest"], code.int(32 - bits)
    number = code.binary("shrsi", code.binary("shli", code.cast("extui", code["x"], "i32"), unused), unused)
    value = code.cast("sitofp", number, "f32")
    most = _power(code, code.cast("extsi", code["exponent"], "i32")) if has_groups else largest
    scaling = _scaling(code, kind, most, largest)
    magnitude = code.cast("bitcast", largest, "f32")

    def signed(size: Value) -> Value:
        return code.select(code.compare("sgt", number, code.int(0)), size, code.unary("arith.negf", size))

    if has_groups:
        found, finite = scale_up(code, value, scaling), magnitude
    else:
        is_largest = code.compare("eq", code.magnitude(number), code.int(to.format.most_units))
        found = code.select(is_largest, signed(magnitude), code.binary("mulf", value, scaling.up[0]))
        finite = code.f32(1.0)
    is_lost = code.compare("eq", number, code.int(-(1 << bits - 1) & 0xFFFFFFFF))
    found = code.select(is_lost, code.f32(LEAST), found)
    is_infinite = code.compare("eq", code.magnitude(number), code.int(_INFINITE))
    other = code.select(is_infinite, signed(code.f32(float("inf"))), signed(finite))
    other = code.select(code.compare("eq", number, code.int(_NAN)), code.f32(float("nan")), other)
    return code.function(code.select(code.compare("ult", most, code.int(INFINITY)), found, other))


def _power(code: Code, exponent: Value) -> Value:
    """The encoding of two to the power of an exponent, which may be subnormal; that of NaN for `_NOT_FINITE`."""
    normal = code.binary("shli", code.binary("addi", exponent, code.int(127)), code.int(23))
    place = code.binary("maxsi", code.binary("addi", exponent, code.int(149)), code.int(0))
    small = code.binary("shli", code.int(1), code.binary("minsi", place, code.int(23)))
    found = code.select(code.compare("slt", exponent, code.int(-126 & 0xFFFFFFFF)), small, normal)
    return code.select(code.compare("eq", exponent, code.int(_NOT_FINITE)), code.int(NAN), found)
