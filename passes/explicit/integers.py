"""Integer arithmetic that is defined for every operand: a divisor of zero ends the run, nothing else does.

The smallest number divided by -1 wraps: the quotient is the dividend, and the remainder 0. A shift by the width of its
type or more shifts every bit out, as in numpy and PyTorch; a negative count is a huge one.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, cf

from numc.passes import linalg

DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi")
SHIFTS = ("arith.shli", "arith.shrui", "arith.shrsi")
DIVISION = "an integer is divided by zero"


def check_division(op: ir.Operation) -> None:
    """Check that a divisor is not zero, and let the smallest number divided by -1 wrap."""
    dividend, divisor = op.operands
    known = linalg.integer(divisor)
    if not isinstance(divisor.type, (ir.IntegerType, ir.IndexType)) or (known is not None and known not in (0, -1)):
        return
    kind = divisor.type
    with ir.InsertionPoint(op):
        if known != -1:
            zero = arith.ConstantOp(kind, 0).result
            cf.AssertOp(arith.CmpIOp(arith.CmpIPredicate.ne, divisor, zero).result, DIVISION)
        if op.name in ("arith.divui", "arith.remui"):
            return
        width = 64 if isinstance(kind, ir.IndexType) else ir.IntegerType(kind).width
        least, minus = arith.ConstantOp(kind, -(1 << (width - 1))).result, arith.ConstantOp(kind, -1).result
        wraps = arith.AndIOp(
            arith.CmpIOp(arith.CmpIPredicate.eq, dividend, least).result,
            arith.CmpIOp(arith.CmpIPredicate.eq, divisor, minus).result,
        ).result
        # By 1 the quotient is the dividend, and the remainder 0.
        op.operands[1] = arith.SelectOp(wraps, arith.ConstantOp(kind, 1).result, divisor).result


def define_shift(op: ir.Operation) -> None:
    """Give a shift by the width of its type or more its result."""
    value, count = op.operands
    if not isinstance(count.type, ir.IntegerType):
        return
    kind = ir.IntegerType(count.type)
    known = linalg.integer(count)
    if known is not None and 0 <= known < kind.width:
        return
    with ir.InsertionPoint(op):
        width = arith.ConstantOp(kind, kind.width).result
        # Compared without sign: a negative count is a huge one.
        inside = arith.CmpIOp(arith.CmpIPredicate.ult, count, width).result
        last = arith.ConstantOp(kind, kind.width - 1).result
        op.operands[1] = arith.SelectOp(inside, count, last).result
    if op.name != "arith.shrsi":
        with ir.InsertionPoint.after(op):
            zero = arith.ConstantOp(value.type, 0).result
            defined = arith.SelectOp(inside, op.results[0], zero).result
        op.results[0].replace_all_uses_except(defined, defined.owner.operation)
