"""stored-codes: tensors that a forward pass keeps for its backward pass are held in the bytes of a narrow format.

A backward pass that only rounds a tensor to a format, and asks which elements are positive, needs no more of it than
the codes of the rounded elements: rounding is idempotent. A positive number that rounds to zero has a code that no
other number has, that of the NaN with a sign. Tensors of which only the positive elements are asked for take a byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from numc.compiler.arithmetic.formats import Conversion
from numc.compiler.arithmetic.grammar import SIGNS, parse_conversion, stored_dtype
from numc.compiler.support.errors import CompilerBug
from numc.passes import facts, linalg
from numc.passes.dialect import conversion_of, fma_of, varies
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
_PREDICATES = tuple(
    int(each)
    for each in (arith.CmpFPredicate.OGT, arith.CmpFPredicate.OLE, arith.CmpFPredicate.UGT, arith.CmpFPredicate.ULE)
)
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
    formats = found - {SIGNS}
    if len(formats) > 1:
        return Reading("", f"rounded to several formats: {', '.join(sorted(formats))}")
    if not found:
        return Reading("", "not read")
    return Reading(next(iter(formats or found)), "")


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
        elif owner.name == "arith.cmpf" and use.operand_number == 0 and _asks_for_positive(owner):
            found.add(SIGNS)
        elif owner.name == "numc.fma":
            how = "converted in groups by " if fma_of(owner).groups else _OPEN
            return how + (linalg.name_of(generic) or generic.name)
        else:
            return _OPEN + (linalg.name_of(generic) or generic.name)
    return None


def _asks_for_positive(op: ir.Operation) -> bool:
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    zero = linalg.maker(op.operands[1])
    if predicate not in _PREDICATES or zero is None or zero.name != "arith.constant":
        return False
    return bool(ir.FloatAttr(zero.attributes["value"]).value == 0)


def stored_codes(module: ir.Operation) -> None:
    """Let arguments and results of @main be the codes of a format, where `numc.stored` says so."""
    inputs, results = facts.of_arguments(module, INPUTS), facts.get(module, RESULTS, [])
    if not inputs and not results:
        return
    with module.context, ir.Location.unknown():
        main = linalg.main(module)
        block = main.regions[0].blocks[0]
        for number, stored in inputs.items():
            found = _reading(block.arguments[number])
            if found.format != stored and not (found.format == SIGNS and stored):
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
    argument.set_type(ir.RankedTensorType.get(wide.shape, _element(stored)))
    if not users:
        return
    first = next(op.operation for op in argument.owner.operations if op.operation in users)
    with ir.InsertionPoint(first), first.location:
        made = _elementwise(argument, wide, _inlined(_widening(stored)))
    for use in uses:
        use.owner.operands[use.operand_number] = made


def _narrow(value: ir.Value, stored: str) -> ir.Value:
    """Return the codes of a tensor, made right behind it, so that the tensor itself can go."""
    maker, kind = linalg.maker(value), ir.RankedTensorType(value.type)
    point = ir.InsertionPoint.at_block_begin(value.owner) if maker is None else ir.InsertionPoint.after(maker)
    with point, ir.Location.unknown() if maker is None else maker.location:
        return _elementwise(value, ir.RankedTensorType.get(kind.shape, _element(stored)), _inlined(_narrowing(stored)))


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
    if stored == SIGNS:
        number = code.select(is_positive, code.int(1), code.int(0))
        return code.function(code.cast("trunci", code.select(code.compare("uno", x, x), code.int(2), number), bits))
    to = parse_conversion(stored)
    rounded = emit_round(code, x, to)
    is_lost = code.binary("andi", is_positive, code.compare("oeq", rounded, code.f32(0.0)))
    found = code.select(is_lost, code.int(_positive_zero(to)), emit_narrowed(code, rounded, to.format))
    return code.function(code.cast("trunci", found, bits))


def _widening(stored: str) -> str:
    """A function from a code to a float32 that rounds to the same, and is positive where what was stored is."""
    code = Function("widen", {"x": stored_dtype(stored).replace("int", "i")}, "f32", attributes="")
    x = code.cast("extui", code["x"], "i32")
    if stored == SIGNS:
        number = code.select(code.compare("eq", x, code.int(1)), code.f32(1.0), code.f32(0.0))
        is_nan = code.compare("eq", x, code.int(2))
        return code.function(code.select(is_nan, code.f32(float("nan")), number))
    to = parse_conversion(stored)
    found: Value = emit_widened(code, x, to.format)
    is_lost = code.compare("eq", x, code.int(_positive_zero(to)))
    return code.function(code.select(is_lost, code.f32(_LEAST), found))
