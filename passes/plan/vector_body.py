"""The scalar body of a linalg.generic as straight-line code on lanes."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from numc.numerics.dtypes import NARROW_ELEMENTS
from numc.passes import linalg
from numc.passes.dialect import conversion_of, varies
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.interface import Emit
from numc.passes.kernels.values.codes import emit_encoded
from numc.passes.kernels.values.rounding import emit_round

_BINARY = {
    f"arith.{name}": name
    for name in (
        *("addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf"),
        *("addi", "subi", "muli", "andi", "ori", "maxsi", "minsi"),
    )
}
_UNARY = ("arith.negf", "math.absf", "math.sqrt", "math.roundeven")
_CASTS = {f"arith.{name}": name for name in ("bitcast", "sitofp", "uitofp", "fptosi", "extsi", "extui", "trunci")}
_COMPARISONS = {
    "arith.cmpf": "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split(),  # noqa: SIM905
    "arith.cmpi": "eq ne slt sle sgt sge ult ule ugt uge".split(),  # noqa: SIM905
}
_OTHERS = ("arith.select", "arith.constant", "numc.round")
_ELEMENTS = ("f32", "i32", "i16", "i8")
"""The types of what is read and yielded."""


def constant(value: ir.Value) -> float | None:
    """The f32 that `value` always is, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant" or not linalg.is_f32(value):
        return None
    return float(ir.FloatAttr(owner.attributes["value"]).value)


def _integer(value: ir.Value) -> int | None:
    """The integer that `value` always is, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant" or str(value.type) not in (*_ELEMENTS[1:], "i1"):
        return None
    return int(ir.IntegerAttr(owner.attributes["value"]).value)


def _is_constant(value: ir.Value) -> bool:
    return constant(value) is not None or _integer(value) is not None


def vector_body(generic: ir.Operation) -> Emit | None:
    """Return what appends the body of `generic` to a Code, given the lanes of its arguments; None if nothing can.

    Operations on f32 and on integers of up to 32 bits that are one instruction can be on lanes, and so can numc.round
    unless it draws random bits by its element, or has open widths. The body must yield one of these, or what
    numc.encode makes of an f32: its code, an integer.
    """
    block = linalg.body(generic)
    ops = [op.operation for op in block.operations]
    inside = set(block.arguments)
    for op in ops[:-1]:
        known = op.name in (*_BINARY, *_UNARY, *_CASTS, *_COMPARISONS, *_OTHERS)
        encodes = op.name == "numc.encode" and op == ops[-2]
        if not (known or encodes) or varies(op):
            return None
        if not encodes and any(str(r.type) not in (*_ELEMENTS, "i1") for r in op.results):
            return None
        if any(operand not in inside and not _is_constant(operand) for operand in op.operands):
            return None
        inside.update(op.results)
    inputs = linalg.input_count(generic)
    read = [a for n, a in enumerate(block.arguments) if n < inputs or not linalg.is_unused(a)]
    if len(ops[-1].operands) != 1 or not all(str(a.type) in _ELEMENTS for a in read):
        return None
    if ops[-1].operands[0] not in inside and not _is_constant(ops[-1].operands[0]):
        return None

    def emit(code: Code, arguments: Sequence[Value]) -> Value:
        names: dict[ir.Value, Value] = dict(zip(block.arguments, arguments, strict=True))

        def lanes(value: ir.Value) -> Value:
            if value in names:
                return names[value]
            if (integer := _integer(value)) is not None:
                return code.int(integer, str(value.type))
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
    if op.name in _COMPARISONS:
        return code.compare(_COMPARISONS[op.name][ir.IntegerAttr(op.attributes["predicate"]).value], *operands)
    if op.name == "arith.select":
        return code.select(*operands)
    if op.name in _UNARY:
        return code.unary(op.name, *operands)
    if op.name in _CASTS:
        return code.cast(_CASTS[op.name], operands[0], str(op.results[0].type))
    if op.name == "numc.encode":
        bits = NARROW_ELEMENTS[str(op.results[0].type)].bits
        return code.cast("trunci", emit_encoded(code, operands[0], conversion_of(op)), f"i{bits}")
    return code.binary(_BINARY[op.name], *operands)
