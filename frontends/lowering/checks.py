"""The code that checks a condition on sizes and elements of tensors in every run (formulas.py)."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, cf, scf, tensor

from numc.frontends.formulas import (
    ARITHMETIC,
    COMPARISONS,
    call_of,
    each_of,
    number_of,
    parsed,
)
from numc.frontends.lowering.tensor_code import index_of, sizes_of

_INTEGERS = {
    "add": arith.AddIOp,
    "sub": arith.SubIOp,
    "mul": arith.MulIOp,
    "floordiv": arith.FloorDivSIOp,
    "mod": arith.RemSIOp,
}
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_ORDERED = {"eq": "OEQ", "ne": "ONE", "lt": "OLT", "le": "OLE", "gt": "OGT", "ge": "OGE"}


def check(text: str, message: str, tensors: Sequence[ir.Value]) -> None:
    """Write at the insertion point what ends the run with a message unless a condition holds of tensors."""
    number = each_of(text)
    if number is None:
        cf.AssertOp(_value(parsed(text), tensors, None), message)
        return
    _over_elements(text, message, tensors, number, [])


def _over_elements(text: str, message: str, tensors: Sequence[ir.Value], place: int, indices: list[ir.Value]) -> None:
    sizes = sizes_of(tensors[place])
    if len(indices) == len(sizes):
        element = _widened(tensor.ExtractOp(tensors[place], indices).result)
        cf.AssertOp(_value(parsed(text), tensors, element), message)
        return
    loop = scf.ForOp(index_of(0), index_of(sizes[len(indices)]), index_of(1))
    with ir.InsertionPoint(loop.body):
        _over_elements(text, message, tensors, place, [*indices, loop.induction_variable])
        scf.YieldOp([])


def _value(node: ast.expr, tensors: Sequence[ir.Value], element: ir.Value | None) -> ir.Value:
    def inner(each: ast.expr) -> ir.Value:
        return _value(each, tensors, element)

    if isinstance(node, ast.Constant):
        return _word(number_of(node))
    if isinstance(node, ast.BoolOp):
        first, *others = map(inner, node.values)
        for right in others:
            first = (arith.OrIOp if isinstance(node.op, ast.Or) else arith.AndIOp)(first, right).result
        return first
    if isinstance(node, ast.UnaryOp):
        value = inner(node.operand)
        if isinstance(node.op, ast.Not):
            return arith.XOrIOp(value, arith.ConstantOp(value.type, 1).result).result
        return arith.SubIOp(_word(0), value).result
    if isinstance(node, ast.BinOp):
        return _INTEGERS[ARITHMETIC[type(node.op)]](inner(node.left), inner(node.right)).result
    if isinstance(node, ast.Compare):
        return _compared(COMPARISONS[type(node.ops[0])], inner(node.left), inner(node.comparators[0]))
    name, args = call_of(node)
    if name in ("min", "max"):
        left, right = map(inner, args)
        return (arith.MinSIOp if name == "min" else arith.MaxSIOp)(left, right).result
    if name == "each":
        assert element is not None
        return element
    return _of_tensor(name, tensors[number_of(args[0])], [number_of(each) for each in args[1:]])


def _compared(how: str, one: ir.Value, other: ir.Value) -> ir.Value:
    """Compare integers, or floats: with a NaN nothing holds."""
    if isinstance(one.type, ir.IntegerType) and isinstance(other.type, ir.IntegerType):
        return arith.CmpIOp(getattr(arith.CmpIPredicate, _SIGNED[how]), one, other).result
    float_type = other.type if isinstance(one.type, ir.IntegerType) else one.type
    floats = [v if v.type == float_type else arith.SIToFPOp(float_type, v).result for v in (one, other)]
    return arith.CmpFOp(getattr(arith.CmpFPredicate, _ORDERED[how]), *floats).result


def _of_tensor(name: str, value: ir.Value, numbers: list[int]) -> ir.Value:
    sizes = sizes_of(value)
    if name == "size":
        return arith.IndexCastOp(_i64(), index_of(sizes[numbers[0]])).result
    if name == "at":
        return _widened(tensor.ExtractOp(value, [index_of(numbers[0])][: len(sizes)]).result)
    if name == "count":
        count = _word(1)
        for size in sizes:
            count = arith.MulIOp(count, arith.IndexCastOp(_i64(), index_of(size)).result).result
        return count
    assert name == "total", name
    loop = scf.ForOp(index_of(0), index_of(sizes[0]), index_of(1), [_word(0)])
    with ir.InsertionPoint(loop.body):
        element = _widened(tensor.ExtractOp(value, [loop.induction_variable]).result)
        scf.YieldOp([arith.AddIOp(loop.inner_iter_args[0], element).result])
    return loop.results[0]


def _widened(element: ir.Value) -> ir.Value:
    """An element as a number of 64 bits, if it is an integer; bool is 0 or 1."""
    if not isinstance(element.type, ir.IntegerType) or element.type.width == 64:
        return element
    return (arith.ExtUIOp if element.type.width == 1 else arith.ExtSIOp)(_i64(), element).result


def _word(number: int) -> ir.Value:
    return arith.ConstantOp(_i64(), number).result


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)
