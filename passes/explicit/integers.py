"""Integer arithmetic that is defined for every operand: a divisor of zero ends the run, nothing else does.

A divisor that is a product of sizes counts as 1 where it is 0: it places elements of a tensor that has none.

The smallest number divided by -1 wraps: the quotient is the dividend, and the remainder 0. A shift by the width of its
type or more shifts every bit out, as in numpy and PyTorch; a negative count is a huge one. A float that an integer of
32 or 64 bits cannot hold, NaN too, becomes its smallest number, as on x86; a shorter integer takes the low bits of what
one of 32 bits gets, as C, onnxruntime and eager torch have it.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from numc.passes import linalg

DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi")
CASTS = ("arith.fptosi", "arith.fptoui")
SHIFTS = ("arith.shli", "arith.shrui", "arith.shrsi")
_OF_SIZES = {f"arith.{name}" for name in ("index_cast", "addi", "subi", "muli", "cmpi", "select", "maxsi", "minsi")}
DIVISION = "an integer is divided by zero"


def check_division(op: ir.Operation) -> None:
    """Check that a divisor is not zero, and let the smallest number divided by -1 wrap."""
    dividend, divisor = op.operands
    known = linalg.integer(divisor)
    if not isinstance(divisor.type, (ir.IntegerType, ir.IndexType)) or (known is not None and known not in (0, -1)):
        return
    divisor_type = divisor.type
    with ir.InsertionPoint(op):
        if known != -1:
            zero = arith.ConstantOp(divisor_type, 0).result
            fits = arith.CmpIOp(arith.CmpIPredicate.ne, divisor, zero).result
            if known is None and _is_of_sizes(divisor):
                divisor = arith.SelectOp(fits, divisor, arith.ConstantOp(divisor_type, 1).result).result
                op.operands[1] = divisor
            else:
                cf.AssertOp(fits, DIVISION)
        if op.name in ("arith.divui", "arith.remui"):
            return
        width = 64 if isinstance(divisor_type, ir.IndexType) else ir.IntegerType(divisor_type).width
        least, minus = (
            arith.ConstantOp(divisor_type, -(1 << (width - 1))).result,
            arith.ConstantOp(divisor_type, -1).result,
        )
        wraps = arith.AndIOp(
            arith.CmpIOp(arith.CmpIPredicate.eq, dividend, least).result,
            arith.CmpIOp(arith.CmpIPredicate.eq, divisor, minus).result,
        ).result
        # By 1 the quotient is the dividend, and the remainder 0.
        op.operands[1] = arith.SelectOp(wraps, arith.ConstantOp(divisor_type, 1).result, divisor).result


def _is_of_sizes(value: ir.Value) -> bool:
    """Whether an integer follows from sizes alone. It is 0 where a tensor has no elements, and so nothing to place."""
    seen, left = {value}, [value]
    while left:
        op = linalg.maker(left.pop())
        if op is not None and op.name in ("tensor.dim", "arith.constant"):
            continue
        if op is None or op.name not in _OF_SIZES:
            return False
        left += [operand for operand in op.operands if operand not in seen]
        seen.update(op.operands)
    return True


def define_shift(op: ir.Operation) -> None:
    """Give a shift by the width of its type or more its result."""
    value, count = op.operands
    if not isinstance(count.type, ir.IntegerType):
        return
    integer_type = ir.IntegerType(count.type)
    known = linalg.integer(count)
    if known is not None and 0 <= known < integer_type.width:
        return
    with ir.InsertionPoint(op):
        width = arith.ConstantOp(integer_type, integer_type.width).result
        # Compared without sign: a negative count is a huge one.
        inside = arith.CmpIOp(arith.CmpIPredicate.ult, count, width).result
        last = arith.ConstantOp(integer_type, integer_type.width - 1).result
        op.operands[1] = arith.SelectOp(inside, count, last).result
    if op.name != "arith.shrsi":
        with ir.InsertionPoint.after(op):
            zero = arith.ConstantOp(value.type, 0).result
            defined = arith.SelectOp(inside, op.results[0], zero).result
        op.results[0].replace_all_uses_except(defined, defined.owner.operation)


def define_cast(op: ir.Operation) -> None:
    """Give a float beyond the range of an integer its result; make a floor division by way of floats exact."""
    if _replace_floor_division(op):
        return
    integer_type, value = ir.IntegerType(op.results[0].type), op.operands[0]
    width = 64 if integer_type.width > 32 else 32
    wide = ir.IntegerType.get_signless(width)
    with ir.InsertionPoint(op):
        least, end, zero = (
            arith.ConstantOp(value.type, ir.FloatAttr.get(value.type, bound)).result
            for bound in (-(2.0 ** (width - 1)), 2.0 ** (width - 1), 0.0)
        )
        inside = arith.AndIOp(
            arith.CmpFOp(arith.CmpFPredicate.OGE, value, least).result,
            arith.CmpFOp(arith.CmpFPredicate.OLT, value, end).result,
        ).result
        converted = arith.FPToSIOp(wide, arith.SelectOp(inside, value, zero).result).result
        smallest = arith.ConstantOp(wide, -(1 << (width - 1))).result
        converted = arith.SelectOp(inside, converted, smallest).result
        if integer_type.width < width:
            converted = arith.TruncIOp(integer_type, converted).result
    linalg.replace(op, [converted])


def _replace_floor_division(op: ir.Operation) -> bool:
    """Make floor(a / b) of integers that torch-mlir divides as floats a division of integers; False for other casts."""
    floor = linalg.maker(op.operands[0])
    quotient = linalg.maker(floor.operands[0]) if floor is not None and floor.name == "math.floor" else None
    if quotient is None or quotient.name != "arith.divf":
        return False
    integer_type = op.results[0].type
    with ir.InsertionPoint(op):
        operands = [_integer_of(value, integer_type) for value in quotient.operands]
        if operands[0] is None or operands[1] is None:
            return False
        divided = arith.FloorDivSIOp(*operands)
    check_division(divided.operation)
    linalg.replace(op, [divided.result])
    return True


def _integer_of(value: ir.Value, kind: ir.Type) -> ir.Value | None:
    """The integer that was converted to a float, or that a float constant is."""
    maker = linalg.maker(value)
    if maker is not None and maker.name == "arith.sitofp" and maker.operands[0].type == kind:
        return maker.operands[0]
    if maker is not None and maker.name == "arith.constant" and isinstance(maker.attributes["value"], ir.FloatAttr):
        number = ir.FloatAttr(maker.attributes["value"]).value
        return arith.ConstantOp(kind, int(number)).result if number.is_integer() else None
    return None
