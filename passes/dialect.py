"""The numc dialect: roundings and fused multiply-adds on f32 scalars, with the arithmetic carried as an attribute.

Values stay f32 (the carrier of every format, arithmetic.md section 1) because a Python-defined type can be neither a
memref nor a vector element. Only this file imports ``torch_mlir.dialects.ext``, whose interface still moves.
"""

from torch_mlir import ir
from torch_mlir.dialects import ext

from numc.compiler.arithmetic.formats import Conversion
from numc.compiler.arithmetic.grammar import parse_conversion, parse_fma
from numc.compiler.arithmetic.operators import Fma
from numc.compiler.support.errors import NumcError


class Numc(ext.Dialect, name="numc"):  # type: ignore[call-arg,misc]
    """Arithmetic that is defined to the bit."""


class RoundOp(Numc.Operation, name="round", traits=[ext.Pure]):  # type: ignore[call-arg,misc,name-defined]
    """``numc.round %x {to = "bf16"}``: `x` rounded to a format, as an f32.

    A stochastic rounding has the number of its operation too: ``{to = "bf16:sr8", number = 3 : i64}``.
    """

    result: ext.Result[ir.F32Type]
    x: ext.Operand[ir.F32Type]
    to: ir.StringAttr

    def verify_invariants(self) -> bool:
        """Check that `to` names a conversion."""
        return _verify(self.operation, "to", parse_conversion)


class FmaOp(Numc.Operation, name="fma", traits=[ext.Pure]):  # type: ignore[call-arg,misc,name-defined]
    """``numc.fma %a, %b, %c {fma = "bf16_1_1"}``: one step of an FMA operator; `a` and `b` are converted already.

    The `number` of an operator that draws is that of its operation, as in ``numc.round``.
    An operator with a chunk says how the reduction that the step is in accumulates, and belongs nowhere else.
    """

    result: ext.Result[ir.F32Type]
    a: ext.Operand[ir.F32Type]
    b: ext.Operand[ir.F32Type]
    c: ext.Operand[ir.F32Type]
    fma: ir.StringAttr

    def verify_invariants(self) -> bool:
        """Check that `fma` names an operator."""
        return _verify(self.operation, "fma", parse_fma)


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


def context() -> ir.Context:
    """Return a fresh context with the numc dialect loaded."""
    ctx = ir.Context()
    with ctx:
        Numc.load()
    return ctx


def conversion_of(op: ir.Operation) -> Conversion:
    """Return the conversion a ``numc.round`` carries."""
    return parse_conversion(ir.StringAttr(op.attributes["to"]).value)


def fma_of(op: ir.Operation) -> Fma:
    """Return the operator a ``numc.fma`` carries."""
    return parse_fma(ir.StringAttr(op.attributes["fma"]).value)


def number_of(op: ir.Operation) -> int:
    """Return the number of the operation that a stochastic ``numc.round`` or ``numc.fma`` belongs to."""
    return int(ir.IntegerAttr(op.attributes["number"]).value) if "number" in op.attributes else 0


def draws(op: ir.Operation) -> bool:
    """Whether an operation is a stochastic rounding, or a multiply-add with one."""
    if op.name == "numc.round":
        return conversion_of(op).noise is not None
    return bool(op.name == "numc.fma" and fma_of(op).draws)
