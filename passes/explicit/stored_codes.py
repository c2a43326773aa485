"""stored-codes: tensors that a forward pass keeps for its backward pass are held in the bytes of a narrow format.

A backward pass that only rounds a tensor to a format, and asks which elements are positive, needs no more of it than
the codes of the rounded elements: rounding is idempotent. A positive number that rounds to zero has a code that no
other number has, that of the NaN with a sign. Tensors of which only the positive elements are asked for, and those of
bool, take a bit for each element (stored_bits.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.compiler.arithmetic.formats import Conversion
from numc.compiler.arithmetic.grammar import parse_conversion
from numc.compiler.arithmetic.stored import (
    BITS,
    IN_BITS,
    NOT_AT_MOST_ZERO,
    POSITIVE,
    stored_dtype,
    stored_shape,
)
from numc.compiler.support.errors import CompilerBug
from numc.passes import facts, linalg
from numc.passes.dialect import conversion_of, fma_of, varies
from numc.passes.explicit.stored_bits import packed, unpacked
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.codes import emit_narrowed, emit_widened
from numc.passes.kernels.values.rounding import emit_round

INPUTS, RESULTS = "numc.stored", "numc.stored_results"
"""Facts: of an argument of @main, the format that it is stored in; of the module, pairs of a result and its format."""
_LEAST = 2.0**-149
"""A positive float32 that every rounding makes zero that makes any positive number zero."""
_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.extract_slice")
# x <= 0 and x > 0 are the same for x and for its code; x < 0 is not where a negative number rounds to zero.
_PREDICATES = {
    int(arith.CmpFPredicate.OGT): POSITIVE,
    int(arith.CmpFPredicate.ULE): POSITIVE,
    int(arith.CmpFPredicate.OLE): NOT_AT_MOST_ZERO,
    int(arith.CmpFPredicate.UGT): NOT_AT_MOST_ZERO,
}
_OPEN = "read as float32 by "


@dataclass(frozen=True)
class Reading:
    """How the operations read an argument: the format that holds all they need of it, or why there is none."""

    format: str
    why: str


def readings(module: ir.Operation, arguments: list[int]) -> dict[int, Reading]:
    """Return how these arguments of @main are read, float32 tensors of a module in which all arithmetic is explicit."""
    block = linalg.main(module).regions[0].blocks[0]
    return {number: _reading(block.arguments[number]) for number in arguments}


def _reading(tensor: ir.Value) -> Reading:
    found: set[str] = set()
    if (reader := _readers(tensor, found)) is not None:
        return Reading("", reader)
    formats = found - set(IN_BITS) or found
    if len(formats) > 1:
        return Reading("", f"read in several formats: {', '.join(sorted(formats))}")
    if not found:
        return Reading("", "not read")
    return Reading(next(iter(formats)), "")


def _readers(tensor: ir.Value, found: set[str]) -> str | None:
    """Add the formats in which a tensor is read to `found`; return who reads it otherwise, or None."""
    for use in tensor.uses:
        owner, number = use.owner.operation, use.operand_number
        if owner.name in _VIEWS or (owner.name == "tensor.insert_slice" and number == 0):
            reader = _readers(owner.results[0], found)
        elif owner.name == "linalg.generic" and number < linalg.input_count(owner):
            reader = _body_readers(owner, linalg.body(owner).arguments[number], found)
        elif owner.name == "tensor.dim":
            continue
        else:
            reader = _OPEN + (linalg.name_of(owner) or owner.name)
        if reader is not None:
            return reader
    return None


def _body_readers(generic: ir.Operation, element: ir.Value, found: set[str]) -> str | None:
    for use in element.uses:
        owner = use.owner.operation
        if owner.name == "linalg.yield":
            reader = _readers(generic.results[use.operand_number], found)
            if reader is not None:
                return reader
        elif owner.name == "arith.extf":
            reader = _body_readers(generic, owner.results[0], found)
            if reader is not None:
                return reader
        elif owner.name == "numc.round" and linalg.is_f32(element) and not varies(owner):
            to = conversion_of(owner)
            if to.format.parts > 1 or to.format.bits > 16 or not to.format.significand_bits:
                return f"rounded to {to}, whose codes have {to.format.bits} bits"
            found.add(str(to))
        elif owner.name == "numc.round":
            return "rounded anew in every execution"
        elif owner.name == "arith.cmpf" and use.operand_number == 0 and (asked := _asked(owner)):
            found.add(asked)
        elif owner.name == "numc.fma":
            how = "converted in groups by " if fma_of(owner).groups else _OPEN
            return how + (linalg.name_of(generic) or generic.name)
        else:
            return _OPEN + (linalg.name_of(generic) or generic.name)
    return None


def _asked(op: ir.Operation) -> str:
    """What bit of an element a comparison asks for; "" if it compares in another way, or not with zero."""
    zero = linalg.maker(op.operands[1])
    if zero is None or zero.name != "arith.constant" or ir.FloatAttr(zero.attributes["value"]).value != 0:
        return ""
    return _PREDICATES.get(ir.IntegerAttr(op.attributes["predicate"]).value, "")


def stored_codes(module: ir.Operation) -> None:
    """Let arguments and results of @main be the codes of a format, where `numc.stored` says so."""
    inputs, results = facts.of_arguments(module, INPUTS), facts.get(module, RESULTS, [])
    if not inputs and not results:
        return
    with module.context, ir.Location.unknown():
        main = linalg.main(module)
        block = main.regions[0].blocks[0]
        for number, stored in inputs.items():
            found = _reading(block.arguments[number]) if stored != BITS else Reading(BITS, "")
            if found.format != stored and not (found.format in IN_BITS and stored not in IN_BITS):
                raise CompilerBug(f"argument {number} is stored in {stored}: {found.why or found.format}")
            _widen(block.arguments[number], stored)
        end = list(block.operations)[-1].operation
        for number, stored in results:
            end.operands[number] = _narrow(end.operands[number], stored)
        kind = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in end.operands])
        main.attributes["function_type"] = ir.TypeAttr.get(kind)


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
        if stored not in IN_BITS:
            made = _elementwise(argument, wide, _inlined(_widening(stored)))
        else:
            made = unpacked(argument, wide.shape)
            if stored != BITS:
                made = _elementwise(made, wide, lambda bit: arith.UIToFPOp(wide.element_type, bit).result)
    for use in uses:
        use.owner.operands[use.operand_number] = made


def _narrow(value: ir.Value, stored: str) -> ir.Value:
    """Return the codes of a tensor, made right behind it, so that the tensor itself can go."""
    maker, kind = linalg.maker(value), ir.RankedTensorType(value.type)
    point = ir.InsertionPoint.at_block_begin(value.owner) if maker is None else ir.InsertionPoint.after(maker)
    with point, ir.Location.unknown() if maker is None else maker.location:
        if stored in IN_BITS:
            return packed(value if stored == BITS else _compared(value, stored))
        return _elementwise(value, ir.RankedTensorType.get(kind.shape, _element(stored)), _inlined(_narrowing(stored)))


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


def _inlined(text: str) -> Callable[[ir.Value], ir.Value]:
    """Return what the function of a text does, put where it is called."""
    module = ir.Module.parse(text)

    def put(x: ir.Value) -> ir.Value:
        source = module.body.operations[0].operation.regions[0].blocks[0]
        (result,) = linalg.copy_body(source, ir.InsertionPoint.current, {source.arguments[0]: x})
        return result

    return put


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
    found = code.select(is_lost, code.int(_positive_zero(to)), emit_narrowed(code, rounded, to.format))
    return code.function(code.cast("trunci", found, bits))


def _widening(stored: str) -> str:
    """A function from a code to a float32 that rounds to the same, and is positive where what was stored is."""
    code = Function("widen", {"x": stored_dtype(stored).replace("int", "i")}, "f32", attributes="")
    x = code.cast("extui", code["x"], "i32")
    to = parse_conversion(stored)
    found: Value = emit_widened(code, x, to.format)
    is_lost = code.compare("eq", x, code.int(_positive_zero(to)))
    return code.function(code.select(is_lost, code.f32(_LEAST), found))
