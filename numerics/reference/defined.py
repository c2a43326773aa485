"""Operators that users define, in the reference: their own functions, called with exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from numc.numerics.circuits.known import Known
from numc.numerics.circuits.number import Whole
from numc.numerics.circuits.real import Real
from numc.numerics.defined import definition_of
from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import round_real
from numc.numerics.operators import Fma

_Parts = tuple[Value, ...]
Run = Callable[[Sequence[_Parts], Sequence[_Parts], Value, Sequence[tuple[int, int]]], Value]


def defined_run(op: Fma) -> Run:
    """The reduction of an operator that a user defines; each block draws as its first product."""
    definition = definition_of(op)
    length = definition.length(op)

    def run(a: Sequence[_Parts], b: Sequence[_Parts], c: Value, noise: Sequence[tuple[int, int]]) -> Value:
        register: Whole = 0
        for k in range(0, len(a), length):
            x, y = (
                _block(side[k : k + length], to.settled, length) for side, to in zip((a, b), op.singles, strict=True)
            )
            if definition.register:
                register = definition.registered(op, x, y, register)
            else:
                c = _rounded(definition.accumulated(op, x, y, Known.counted(c, op.acc.settled)), op.acc, noise[k][1])
        if definition.register:
            c = _rounded(definition.ended(op, Known.counted(c, op.acc.settled), register), op.acc, 0)
        return c

    return run


def _block(side: Sequence[_Parts], to: Conversion, length: int) -> list[Real]:
    """The operands of a block, +0 where a short one has none."""
    return [*(Known.counted(parts[0], to) for parts in side), *([Known.counted(0, to)] * (length - len(side)))]


def _rounded(result: Real, to: Conversion, noise: int) -> Value:
    """A number in the accumulator's format, as a count of 2^-149, or as the float that has none."""
    assert isinstance(result, Known)
    known = Known(round_real(result.value, to, noise), None).value
    return int(known * (1 << POINT)) if isinstance(known, Fraction) else known
