"""Reshapes of tensors with free sizes, lowered to tensor.reshape.

torch-mlir's own lowering of aten.view matches dimensions by their sizes, and takes a free one for 1 where the fixed
ones beside it fit: of [?, ?, 4, 8] as [-1, 32] it kept only the first of the second dimension.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf, tensor

from numc.passes import dialect, linalg

TOO_MANY = "a size of a reshape is below -1, or more than one is -1"

_TENSOR = re.compile(r"!torch\.vtensor<\[([^\]]*)\],([a-z]+)(\d+)>")
_INTEGERS = {"si": "i", "ui": "i"}


def lower_reshapes(module: ir.Module) -> None:
    """Replace every aten.view in which a size is free; of the sizes, one may be -1, for what the others leave."""
    views = []
    for op in linalg.operations(module.operation, "torch.aten.view"):
        if op.operands[1].owner.name == "torch.prim.ListConstruct":
            source, result = (builtin_type(value.type) for value in (op.operands[0], op.results[0]))
            if source is not None and result is not None and not (source.has_static_shape and result.has_static_shape):
                views.append((op, source, result))
    if views:
        dialect.load_for(module.context, "torch-func-backend-type-conversion")  # torch_c
    for op, source, result in views:
        with ir.InsertionPoint(op), op.location:
            _lower(op, source, result)


def builtin_type(type_: ir.Type) -> ir.RankedTensorType | None:
    """Return the builtin type of a tensor of torch-mlir; None if its rank or dtype is not known."""
    match = _TENSOR.fullmatch(str(type_))
    if match is None:
        return None
    element = ir.Type.parse(f"{_INTEGERS.get(match[2], match[2])}{match[3]}", type_.context)
    dynamic = ir.ShapedType.get_dynamic_size()
    with ir.Location.unknown(type_.context):
        sizes = [dynamic if size == "?" else int(size) for size in match[1].split(",") if size]
        return ir.RankedTensorType.get(sizes, element)


def _lower(op: ir.Operation, source: ir.RankedTensorType, result: ir.RankedTensorType) -> None:
    value = create("torch_c.to_builtin_tensor", source, op.operands[0])
    sizes = _sizes(value, op.operands[1].owner.operands)
    shape = tensor.FromElementsOp(ir.RankedTensorType.get([len(sizes)], _i64()), sizes).result
    reshaped = tensor.ReshapeOp(result, value, shape).result
    op.results[0].replace_all_uses_with(create("torch_c.from_builtin_tensor", op.results[0].type, reshaped))
    op.erase()


def create(name: str, result: ir.Type, *operands: ir.Value) -> ir.Value:
    """Return the result of an operation, such as a conversion of the dialect torch_c."""
    return ir.Operation.create(name, results=[result], operands=operands).results[0]


def torch_constant(number: int) -> ir.Value:
    """Return a constant integer of the dialect torch."""
    value = ir.IntegerAttr.get(_i64(), number)
    return ir.Operation.create(
        "torch.constant.int", results=[ir.Type.parse("!torch.int")], attributes={"value": value}
    ).results[0]


def torch_integer(value: ir.Value) -> int | None:
    """Return the number that a constant integer of the dialect torch is; None if it is anything else."""
    made = linalg.maker(value)
    if made is None or made.name != "torch.constant.int":
        return None
    return int(ir.IntegerAttr(made.attributes["value"]).value)


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)


def _sizes(value: ir.Value, listed: Sequence[ir.Value]) -> list[ir.Value]:
    """The sizes of a reshape of `value` as numbers, with the one that is -1, if there is one, filled in."""
    sizes = [create("torch_c.to_i64", _i64(), size) for size in listed]
    unknown = [n for n, size in enumerate(listed) if not _is_size(size)]
    if not unknown:
        return sizes
    zero, one = (arith.ConstantOp(_i64(), n).result for n in (0, 1))
    absent = {n: arith.CmpIOp(arith.CmpIPredicate.slt, sizes[n], zero).result for n in unknown}
    if len(unknown) > 1 or torch_integer(listed[unknown[0]]) is None:
        _check_one_is_absent([sizes[n] for n in unknown], [absent[n] for n in unknown])
    known = one
    for n, size in enumerate(sizes):
        known = arith.MulIOp(known, arith.SelectOp(absent[n], one, size).result if n in absent else size).result
    # Without elements there is nothing to divide by, and the reshape is checked as any other.
    empty = arith.CmpIOp(arith.CmpIPredicate.eq, known, zero).result
    inferred = arith.DivSIOp(_elements(value), arith.SelectOp(empty, one, known).result).result
    for n in unknown:
        absent_size = arith.SelectOp(empty, _flattened(value, n, len(sizes)), inferred).result
        sizes[n] = arith.SelectOp(absent[n], absent_size, sizes[n]).result
    return sizes


def _flattened(value: ir.Value, n: int, rank: int) -> ir.Value:
    """The size n of a reshape to `rank` dimensions that flattens some to it and keeps the others.

    Of a tensor without elements, -1 may be anything: this is what a model that flattens relies on.
    """
    more = ir.RankedTensorType(value.type).rank - rank
    return _elements(value, range(n, n + more + 1) if more >= 0 else None)


def _check_one_is_absent(sizes: Sequence[ir.Value], absent: Sequence[ir.Value]) -> None:
    total, minus, lowest = (arith.ConstantOp(_i64(), n).result for n in (0, -1, -2))
    for size, is_absent in zip(sizes, absent, strict=True):
        bounded = arith.MaxSIOp(size, lowest).result  # so that the sum does not overflow
        total = arith.SelectOp(is_absent, arith.AddIOp(total, bounded).result, total).result
    cf.AssertOp(arith.CmpIOp(arith.CmpIPredicate.sge, total, minus).result, TOO_MANY)


def _is_size(value: ir.Value) -> bool:
    """Whether an integer cannot be negative, as far as can be seen."""
    maker = value.owner
    if isinstance(maker, ir.Block):
        return False
    if (number := torch_integer(value)) is not None:
        return number >= 0
    if maker.name in ("torch.aten.mul.int", "torch.aten.add.int"):
        return all(map(_is_size, maker.operands))
    return str(maker.name) in ("torch.aten.size.int", "torch.aten.sym_size.int", "torch.aten.numel")


def _elements(value: ir.Value, dims: Sequence[int] | None = None) -> ir.Value:
    """The number of elements of a tensor, or of some of its dimensions."""
    count = arith.ConstantOp(_i64(), 1).result
    for n in range(ir.RankedTensorType(value.type).rank) if dims is None else dims:
        size = tensor.DimOp(value, arith.ConstantOp(ir.IndexType.get(), n).result).result
        count = arith.MulIOp(count, arith.IndexCastOp(_i64(), size).result).result
    return count
