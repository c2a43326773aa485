"""The numc dialect: roundings and fused multiply-adds on f32 scalars, with the arithmetic carried as an attribute.

Values stay f32 (the carrier of every format, arithmetic.md section 1) because a Python-defined type can be neither a
memref nor a vector element. Only this file imports ``torch_mlir.dialects.ext``, whose interface still moves.
"""

import os
import sys
import threading
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, ext
from torch_mlir.passmanager import PassManager

from numc.numerics.dtypes import NARROW_ELEMENTS
from numc.numerics.formats import Conversion
from numc.numerics.grammar import parse_conversion, parse_operand_conversion, stated_fma
from numc.numerics.operators import Fma
from numc.passes import facts, linalg
from numc.support.errors import NumcError


class Numc(ext.Dialect, name="numc"):  # type: ignore[call-arg,misc]
    """Arithmetic that is defined to the bit."""


# MLIR imports the module of a dialect before it shows an operation: if there is none, it searches for each of them.
sys.modules[f"{ext.__package__}.{Numc.DIALECT_NAMESPACE}"] = sys.modules[__name__]


class RoundOp(Numc.Operation, name="round", traits=[ext.Pure]):  # type: ignore[call-arg,misc,name-defined]
    """``numc.round %x {to = "bf16"}``: `x`, an f32 or an f64, rounded to a format once, as an f32.

    A stochastic rounding has the number of its operation too: ``{to = "bf16:sr8", number = 3 : i64}``. A format with
    open widths has the number of the slot that they are in: ``{to = "e2..8m3", width = 0 : i64}``.
    """

    result: ext.Result[ir.F32Type]
    x: ext.Operand[ir.F32Type | ir.F64Type]
    to: ir.StringAttr

    def verify_invariants(self) -> bool:
        """Check that `to` names a conversion."""
        return _verify(self.operation, "to", _single)


class EncodeOp(Numc.Operation, name="encode", traits=[ext.Pure]):  # type: ignore[call-arg,misc,name-defined]
    """``numc.encode %x {to = "bf16"}``: `x` rounded to a format, without random bits, in the dtype that holds it."""

    result: ext.Result[ir.BF16Type | ir.F16Type | ir.Float8E4M3FNType | ir.Float8E5M2Type]
    x: ext.Operand[ir.F32Type]
    to: ir.StringAttr

    def verify_invariants(self) -> bool:
        """Check that `to` names a conversion."""
        return _verify(self.operation, "to", _single)


class FmaOp(Numc.Operation, name="fma", traits=[ext.Pure]):  # type: ignore[call-arg,misc,name-defined]
    """``numc.fma %a, %b, %c {fma = "bf16_1_1"}``: one step of an FMA operator; `a` and `b` are converted already.

    The `number` of an operator that draws is that of its operation, as in ``numc.round``, and so are the slots of open
    widths: ``widths = {a = 0 : i64, b = 1 : i64}``.
    An operator whose order is not steps says how the reduction that the step is in accumulates, and belongs nowhere
    else.
    """

    result: ext.Result[ir.F32Type]
    a: ext.Operand[ir.F32Type]
    b: ext.Operand[ir.F32Type]
    c: ext.Operand[ir.F32Type]
    fma: ir.StringAttr

    def verify_invariants(self) -> bool:
        """Check that `fma` names an operator."""
        return _verify(self.operation, "fma", stated_fma)


def _verify(op: ir.Operation, attribute: str, parse: object) -> bool:
    # Verification also runs while the attribute is still missing.
    if attribute not in op.attributes:
        op.location.emit_error(f"'{op.name}' needs the string attribute '{attribute}'")
        return False
    try:
        parse(ir.StringAttr(op.attributes[attribute]).value)  # type: ignore[operator]
    except (NumcError, ValueError) as error:
        op.location.emit_error(f"'{op.name}' attribute '{attribute}': {error}")
        return False
    return True


_loading = threading.Lock()


def context() -> ir.Context:
    """Return a fresh context with the numc dialect loaded.

    One thread at a time: a dialect keeps the module that it is loaded from until it is loaded again, and another thread
    would free it while it is read.
    """
    ctx = ir.Context()
    with _loading, ctx:
        Numc.load()
    return ctx


def _unlock() -> None:
    """In the child of a fork, whose parent may have been loading on another thread."""
    global _loading
    _loading = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def load_for(context: ir.Context, passes: str) -> None:
    """Load the dialects that `passes` need and that Python cannot name: passes load them, on an empty module too."""
    with context, ir.Location.unknown():
        PassManager.parse(f"builtin.module({passes})").run(ir.Module.parse("func.func private @f()").operation)


_EXACT_IN_F64 = 53


def rounded(value: ir.Value, to: Conversion, *, unsigned: bool = False) -> ir.Value:
    """Append the rounding of a float or of an integer to a format: once, so not by way of a float32 that is near it.

    unsigned: whether an integer has no sign.
    """
    value_type = value.type
    if isinstance(value_type, ir.IntegerType):
        cast = arith.UIToFPOp if unsigned else arith.SIToFPOp
        if value_type.width >= _EXACT_IN_F64:
            value = _to_odd(value, unsigned)
        value = cast(ir.F32Type.get() if value_type.width <= 16 else ir.F64Type.get(), value).result
    result: ir.Value = RoundOp(ir.F32Type.get(), value, to=ir.StringAttr.get(str(to))).result
    return result


def _to_odd(value: ir.Value, unsigned: bool) -> ir.Value:
    """Append an integer of at most 64 bits rounded to odd at 53 bits, which an f64 has, where it has more than that."""
    integer_type = value.type
    cut = integer_type.width - _EXACT_IN_F64

    def number(n: int) -> ir.Value:
        return arith.ConstantOp(integer_type, n).result

    below = arith.AndIOp(value, number((1 << cut) - 1)).result
    inexact = arith.CmpIOp(arith.CmpIPredicate.ne, below, number(0)).result
    kept = arith.OrIOp(
        arith.XOrIOp(value, below).result, arith.SelectOp(inexact, number(1 << cut), number(0)).result
    ).result
    low, high = (0, 1 << _EXACT_IN_F64) if unsigned else (-(1 << _EXACT_IN_F64), 1 << _EXACT_IN_F64)
    smaller = arith.CmpIPredicate.ult if unsigned else arith.CmpIPredicate.slt
    fits = arith.CmpIOp(smaller, value, number(high)).result
    if low:
        fits = arith.AndIOp(fits, arith.CmpIOp(arith.CmpIPredicate.sgt, value, number(low)).result).result
    return arith.SelectOp(fits, value, kept).result


def conversion_of(op: ir.Operation) -> Conversion:
    """Return the conversion that a ``numc.round`` or a ``numc.encode`` carries."""
    return _single(ir.StringAttr(op.attributes["to"]).value)


def _single(text: str) -> Conversion:
    """Return the conversion of single values that `text` writes; its widths may be open. Raises NumcError."""
    to = parse_operand_conversion(text)
    return to if isinstance(to, Conversion) else parse_conversion(text)


def fma_of(op: ir.Operation) -> Fma:
    """Return the operator a ``numc.fma`` carries."""
    return stated_fma(ir.StringAttr(op.attributes["fma"]).value)


@dataclass(frozen=True)
class Contracted:
    """A linalg.generic that is a contraction and nothing else.

    step: its numc.fma. numbers: of A, B and the accumulator among the operands. conversions: of A and B in the body, as
    text; "" where the elements are taken as they are, as those of a narrow dtype that is the format.
    """

    step: ir.Operation
    fma: Fma
    numbers: tuple[int, int, int]
    conversions: tuple[str, str]


def contracted(generic: ir.Operation) -> Contracted | None:
    """The contraction that a linalg.generic is, if its body is one numc.fma and the conversions of its operands."""
    if not linalg.reduces(generic):
        return None
    ops = [op.operation for op in linalg.body(generic).operations]
    steps = [op for op in ops if op.name == "numc.fma"]
    known = ("numc.round", "numc.fma", "arith.extf", "arith.uitofp", "arith.sitofp", "linalg.yield")
    if len(steps) != 1 or any(op.name not in known for op in ops):
        return None
    if len(ops[-1].operands) != 1 or ops[-1].operands[0] != steps[0].results[0]:
        return None
    fma, inputs = fma_of(steps[0]), linalg.input_count(generic)
    # No rounding can stand for a conversion to groups, which depends on more than one value.
    slots = slots_of(steps[0])
    bytes_ = ("arith.uitofp", "arith.sitofp", "") if fma.datapath.name == "bytes" else ("", "", "")
    a, b, c = (
        _converted(generic, value, str(to), slots.get(name), byte)
        for value, to, name, byte in zip(steps[0].operands, (fma.a, fma.b, ""), ("a", "b", ""), bytes_, strict=True)
    )
    if a is None or b is None or c is None:
        return None
    if max(a[0], b[0]) >= inputs or c[0] < inputs or len(generic.operands) != inputs + 1:
        return None
    return Contracted(steps[0], fma, (a[0], b[0], c[0]), (a[1], b[1]))


def _converted(generic: ir.Operation, value: ir.Value, to: str, slot: int | None, byte: str) -> tuple[int, str] | None:
    """The argument of a body that `value` is, and `to` if it was rounded to that on the way, without random bits.

    slot: that of its widths, if they are open. byte: the operation that makes it of a byte, if it may be one.
    """
    conversion = "" if isinstance(value.owner, ir.Block) else to
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "arith.extf" and _is_stored_in(op.operands[0], to):
            return _argument(generic, op.operands[0], "")
        if op.name == byte and str(op.operands[0].type) == "i8":
            return _argument(generic, op.operands[0], "")
        if op.name != "numc.round" or draws(op) or ir.StringAttr(op.attributes["to"]).value != to:
            return None
        if slot_of(op) != slot or not linalg.is_f32(op.operands[0]):
            return None
        value = op.operands[0]
    return _argument(generic, value, conversion)


def _argument(generic: ir.Operation, value: ir.Value, conversion: str) -> tuple[int, str] | None:
    if not isinstance(value.owner, ir.Block):
        return None
    argument = ir.BlockArgument(value)
    return (argument.arg_number, conversion) if argument.owner == linalg.body(generic) else None


def _is_stored_in(value: ir.Value, to: str) -> bool:
    """Whether the dtype of a value is narrow, and the format that a conversion is to."""
    narrow = NARROW_ELEMENTS.get(str(value.type))
    return narrow is not None and bool(to) and narrow.stored.format == parse_operand_conversion(to).format


def number_of(op: ir.Operation) -> int:
    """Return the number of the operation that a stochastic ``numc.round`` or ``numc.fma`` belongs to."""
    return int(ir.IntegerAttr(op.attributes["number"]).value) if "number" in op.attributes else 0


def slot_of(op: ir.Operation) -> int | None:
    """Return the number of the slot of a ``numc.round`` whose widths are open. Raises NumcError if it has none."""
    if conversion_of(op).open is None:
        return None
    if "width" not in op.attributes:
        raise NumcError(f"{op.location}: '{op.name}' has open widths: give it their slot, as in {{width = 0 : i64}}")
    return int(facts.get(op, "width"))


def slots_of(op: ir.Operation) -> dict[str, int]:
    """Return the numbers of the slots of a ``numc.fma`` with open widths, by what they are of.

    Raises NumcError if it does not have them.
    """
    slots = dict(facts.get(op, "widths", {}))
    if missing := fma_of(op).open_operands.keys() - slots.keys():
        raise NumcError(
            f"{op.location}: '{op.name}' has open widths: give it their slots, as in "
            f"{{widths = {{{min(missing)} = 0 : i64}}}}"
        )
    return slots


def varies(op: ir.Operation) -> bool:
    """Whether an operation rounds otherwise from run to run: it draws random bits, or its widths are open."""
    return draws(op) or "width" in op.attributes or "widths" in op.attributes


def draws(op: ir.Operation) -> bool:
    """Whether an operation is a stochastic rounding, or a multiply-add with one."""
    if op.name == "numc.round":
        return conversion_of(op).noise is not None
    return bool(op.name == "numc.fma" and fma_of(op).draws)
