"""stored-codes: tensors that a forward pass keeps for its backward pass are held in the bytes of a narrow format.

A backward pass that only rounds a tensor to a format, and asks which elements are positive, needs no more of it than
the codes of the rounded elements: rounding is idempotent. A positive number that rounds to zero has a code that no
other number has, that of the NaN with a sign. Tensors of which only the positive elements are asked for, and those of
bool, take a bit for each element (stored_bits.py).
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.numerics.formats import Conversion
from numc.numerics.grammar import parse_conversion
from numc.numerics.stored import (
    BITS,
    IN_BITS,
    POSITIVE,
    groups_of,
    stored_dtype,
    stored_shape,
)
from numc.passes import facts, linalg
from numc.passes.explicit.group_codes import LEAST
from numc.passes.explicit.inlined import inlined
from numc.passes.explicit.readings import Reading, reading_of
from numc.passes.explicit.stored_bits import codes_of, collapsed, expanded, planes_of
from numc.passes.explicit.stored_groups import packed_groups, unpacked_groups
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.codes import emit_narrowed, emit_widened
from numc.passes.kernels.values.rounding import emit_round
from numc.support.errors import CompilerBug

INPUTS, RESULTS = "numc.stored", "numc.stored_results"
"""Facts: of an argument of @main, the format that it is stored in; of the module, pairs of a result and its format."""


def stored_codes(module: ir.Operation) -> None:
    """Let arguments and results of @main be the codes of a format, where `numc.stored` says so."""
    inputs, results = facts.of_arguments(module, INPUTS), facts.get(module, RESULTS, [])
    if not inputs and not results:
        return
    with module.context, ir.Location.unknown():
        main = linalg.main(module)
        block = main.regions[0].blocks[0]
        for number, stored in inputs.items():
            reading = reading_of(block.arguments[number]) if stored != BITS else Reading(BITS, "")
            if reading.format != stored and not (reading.format in IN_BITS and stored not in IN_BITS):
                raise CompilerBug(f"argument {number} is stored in {stored}: {reading.why or reading.format}")
            _widen(block.arguments[number], stored)
        end = list(block.operations)[-1].operation
        for number, stored in results:
            end.operands[number] = _narrow(end.operands[number], stored)
        function_type = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in end.operands])
        main.attributes["function_type"] = ir.TypeAttr.get(function_type)


def _widen(argument: ir.Value, stored: str) -> None:
    """Make an argument the codes of a format, which are widened right before their first reader."""
    wide = ir.RankedTensorType(argument.type)
    users = {use.owner.operation for use in argument.uses}
    uses = list(argument.uses)
    argument.set_type(ir.RankedTensorType.get(stored_shape(stored, wide.shape), _element(stored)))
    if not users:
        return
    first = next(op.operation for op in argument.owner.operations if op.operation in users)
    with ir.InsertionPoint(first), first.location:
        made = _wide(argument, stored, wide)
    for use in uses:
        use.owner.operands[use.operand_number] = made


def _wide(given: ir.Value, stored: str, wide: ir.RankedTensorType) -> ir.Value:
    """The float32 numbers for which the codes of an argument stand."""
    if groups_of(stored) is not None:
        return unpacked_groups(given, stored, wide.shape)
    if stored not in IN_BITS:
        return _elementwise(given, wide, inlined(_widening(stored)))
    bits = codes_of([collapsed(given)], 1, wide.shape)
    if stored == BITS:
        return bits
    return _elementwise(bits, wide, lambda bit: arith.UIToFPOp(wide.element_type, bit).result)


def _narrow(value: ir.Value, stored: str) -> ir.Value:
    """Return the codes of a tensor, made right behind it, so that the tensor itself can go."""
    maker, tensor_type = linalg.maker(value), ir.RankedTensorType(value.type)
    point = ir.InsertionPoint.at_block_begin(value.owner) if maker is None else ir.InsertionPoint.after(maker)
    with point, ir.Location.unknown() if maker is None else maker.location:
        shape = stored_shape(stored, tensor_type.shape)
        if groups_of(stored) is not None:
            return expanded(packed_groups(value, stored), shape)
        if stored in IN_BITS:
            (plane,) = planes_of(value if stored == BITS else _compared(value, stored), 1)
            return expanded(plane, shape)
        return _elementwise(value, ir.RankedTensorType.get(shape, _element(stored)), inlined(_narrowing(stored)))


def _compared(value: ir.Value, stored: str) -> ir.Value:
    """The bits (i1) that are asked of the elements of a tensor."""
    predicate = arith.CmpFPredicate.OGT if stored == POSITIVE else arith.CmpFPredicate.UGT
    bits = ir.RankedTensorType.get(ir.RankedTensorType(value.type).shape, ir.IntegerType.get_signless(1))

    def compare(x: ir.Value) -> ir.Value:
        return arith.CmpFOp(predicate, x, arith.ConstantOp(x.type, 0.0).result).result

    return _elementwise(value, bits, compare)


def _element(stored: str) -> ir.Type:
    return ir.IntegerType.get_signless(int(stored_dtype(stored).removeprefix("int")))


def _elementwise(value: ir.Value, kind: ir.RankedTensorType, body: Callable[[ir.Value], ir.Value]) -> ir.Value:
    maps = [ir.AffineMap.get_identity(kind.rank)] * 2
    return linalg.generic([value], linalg.room(value, kind), maps, ["parallel"] * kind.rank, lambda x, _: body(x))


def _positive_zero(to: Conversion) -> int:
    """The code of the NaN with a sign, which emit_narrowed never makes."""
    return to.format.encode(float("nan")) | 1 << to.format.bits - 1


def _narrowing(stored: str) -> str:
    """A function from a float32 to its code."""
    bits = stored_dtype(stored).replace("int", "i")
    code = Function("narrow", {"x": "f32"}, bits, attributes="")
    x = code["x"]
    is_positive = code.compare("ogt", x, code.f32(0.0))
    to = parse_conversion(stored)
    rounded = emit_round(code, x, to)
    is_lost = code.binary("andi", is_positive, code.compare("oeq", rounded, code.f32(0.0)))
    narrowed = code.select(is_lost, code.int(_positive_zero(to)), emit_narrowed(code, rounded, to.format))
    return code.function(code.cast("trunci", narrowed, bits))


def _widening(stored: str) -> str:
    """A function from a code to a float32 that rounds to the same, and is positive where what was stored is."""
    code = Function("widen", {"x": stored_dtype(stored).replace("int", "i")}, "f32", attributes="")
    x = code.cast("extui", code["x"], "i32")
    to = parse_conversion(stored)
    widened: Value = emit_widened(code, x, to.format)
    is_lost = code.compare("eq", x, code.int(_positive_zero(to)))
    return code.function(code.select(is_lost, code.f32(LEAST), widened))
