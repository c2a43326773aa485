"""The scalar body of a linalg.generic as straight-line code on lanes."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from numc.compiler.arithmetic.dtypes import NARROW_ELEMENTS
from numc.passes import linalg
from numc.passes.dialect import conversion_of, varies
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.interface import Emit
from numc.passes.kernels.values.codes import emit_encoded
from numc.passes.kernels.values.rounding import emit_round

_BINARY = {
    f"arith.{name}": name for name in ("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf")
}
_UNARY = ("arith.negf", "math.absf", "math.sqrt")
_PREDICATES = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()  # noqa: SIM905


def constant(value: ir.Value) -> float | None:
    """The f32 that `value` always is, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant" or not linalg.is_f32(value):
        return None
    return float(ir.FloatAttr(owner.attributes["value"]).value)


def vector_body(generic: ir.Operation) -> Emit | None:
    """Return what appends the body of `generic` to a Code, given the lanes of its arguments; None if nothing can.

    Operations on f32 that are one instruction can be on lanes, and so can numc.round unless it draws random bits by its
    element, or has open widths. The body must yield one f32, or what numc.encode makes of one: its code, an integer.
    """
    block = linalg.body(generic)
    ops = [op.operation for op in block.operations]
    inside = set(block.arguments)
    for op in ops[:-1]:
        known = op.name in _BINARY or op.name in _UNARY or op.name == "numc.round"
        known = known or op.name in ("arith.cmpf", "arith.select", "arith.constant")
        encodes = op.name == "numc.encode" and op == ops[-2]
        if not (known or encodes) or varies(op):
            return None
        if not encodes and any(str(r.type) not in ("f32", "i1") for r in op.results):
            return None
        if any(operand not in inside and constant(operand) is None for operand in op.operands):
            return None
        inside.update(op.results)
    inputs = linalg.input_count(generic)
    read = [a for n, a in enumerate(block.arguments) if n < inputs or not linalg.is_unused(a)]
    if len(ops[-1].operands) != 1 or not all(linalg.is_f32(a) for a in read):
        return None
    if ops[-1].operands[0] not in inside and constant(ops[-1].operands[0]) is None:
        return None

    def emit(code: Code, arguments: Sequence[Value]) -> Value:
        names: dict[ir.Value, Value] = dict(zip(block.arguments, arguments, strict=True))

        def lanes(value: ir.Value) -> Value:
            if value in names:
                return names[value]
            number = constant(value)
            assert number is not None
            return code.f32(number)

        for op in ops[:-1]:
            if op.name != "arith.constant":
                names[op.results[0]] = _lane_op(code, op, [lanes(operand) for operand in op.operands])
        return lanes(ops[-1].operands[0])

    return emit


def _lane_op(code: Code, op: ir.Operation, operands: list[Value]) -> Value:
    if op.name == "numc.round":
        return emit_round(code, operands[0], conversion_of(op))
    if op.name == "arith.cmpf":
        return code.compare(_PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value], *operands)
    if op.name == "arith.select":
        return code.select(*operands)
    if op.name in _UNARY:
        return code.unary(op.name, *operands)
    if op.name == "numc.encode":
        bits = NARROW_ELEMENTS[str(op.results[0].type)].bits
        return code.cast("trunci", emit_encoded(code, operands[0], conversion_of(op)), f"i{bits}")
    return code.binary(_BINARY[op.name], *operands)
