"""The places of the largest elements of windows, where torch-mlir looks for an element that equals the maximum.

None equals NaN, and what lies in the padding equals a maximum of -inf: -1 and places outside of the image would follow,
with which unpooling writes elsewhere. In torch the place is that of the last NaN, and never in the padding.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.passes import linalg


def keep_places_inside(module: ir.Module) -> None:
    """Let every place that a pooling finds be one of the image, and that of NaN where there is one."""
    for op in linalg.operations(module.operation, "linalg.generic"):
        body = op.regions[0].blocks[0]
        operations = list(body.operations)
        chosen = _chosen(operations)
        if chosen is not None:
            matches, last = chosen
            _keep(operations, matches, last)


def _chosen(operations: list[ir.OpView]) -> tuple[ir.Operation, ir.Operation] | None:
    """Of the body of a pooling of places, the choice where an element matches, and that where no place is known yet."""
    if len(operations[-1].operands) != 1:
        return None
    last = _made_by(operations[-1].operands[0], "arith.select")
    unknown = last and _made_by(last.operands[0], "arith.cmpi")
    matches = last and _made_by(last.operands[1], "arith.select")
    if last is None or unknown is None or matches is None:
        return None
    number = _made_by(unknown.operands[1], "arith.constant")
    is_none = number is not None and str(number.attributes["value"]) == "-1 : i64"
    is_pooling = is_none and matches.operands[2] == last.operands[2] == unknown.operands[0]
    return (matches, last) if is_pooling and _made_by(matches.operands[0], "arith.cmpf", "arith.cmpi") else None


def _made_by(value: ir.Value, *names: str) -> ir.Operation | None:
    op = linalg.maker(value)
    return op if op is not None and op.name in names else None


def _keep(operations: list[ir.OpView], matches: ir.Operation, last: ir.Operation) -> None:
    compared = matches.operands[0].owner
    with ir.InsertionPoint(matches), matches.location:
        for op in operations:
            if op.operation.name == "arith.subi" and isinstance(op.results[0].type, ir.IndexType):  # after the padding
                zero = arith.ConstantOp(ir.IndexType.get(), 0).result
                inside = arith.CmpIOp(arith.CmpIPredicate.sge, op.results[0], zero).result
                matches.operands[0] = arith.AndIOp(matches.operands[0], inside).result
    if compared.name == "arith.cmpf":
        element = compared.operands[0]
        with ir.InsertionPoint.after(last), last.location:
            is_nan = arith.CmpFOp(arith.CmpFPredicate.UNO, element, element).result
            index = arith.SelectOp(is_nan, matches.operands[1], last.results[0]).result
        last.results[0].replace_all_uses_except(index, index.owner.operation)
