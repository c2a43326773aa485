"""Elementary functions of f32 in fewer operations, with a check: the bits are those of math_functions.py.

Both compute a binary64 number that is rounded to f32 once. Where this module's number is so far from the middle between
two f32 values that its error and that of math_functions.py cannot matter, both are rounded to the same value. The rare
others are computed by math_functions.py: a vector asks whether it has one of them in a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.math_functions import MAGIC, Lanes
from numc.passes.kernels.values.math_tables import ERF_PIECES, ERF_STEP

#: Lanes of a vector of binary64 numbers, in which tables of eight numbers are looked up.
EIGHT = 8
# The relative error of both numbers together is below 2^-38: so many units of a binary64 number's last place.
_NEAR = 1 << 53 - 38
# The bits of a binary64 number that f32 has no room for.
_CUT = 29


@dataclass(frozen=True)
class Vectors:
    """Vectors of eight lanes that are computed side by side, so that a chain of operations waits for nothing.

    lookup, barrier: of the instruction set.
    """

    m: Lanes
    lookup: Callable[[Code, Sequence[float], Value], Value]
    barrier: Callable[[Code, Sequence[Value]], list[Value]]

    def polynomial(self, table: Sequence[Sequence[float]], indices: list[Value], at: list[Value]) -> list[Value]:
        """The polynomials whose coefficients, the lowest first, are looked up."""
        m = self.m
        result = [self.lookup(m.code, table[-1], index) for index in indices]
        for power in reversed(table[:-1]):
            looked = [self.lookup(m.code, power, index) for index in indices]
            result = self.barrier(m.code, [m.fma(*terms) for terms in zip(result, at, looked, strict=True)])
        return result


def erf(vectors: Vectors, xs: list[Value]) -> list[Value]:
    """Error function: a polynomial of the distance to the nearest multiple of a step, 1 from 4 on."""
    m = vectors.m
    magnitudes = [m.at_most(m.abs(x), 4.0) for x in xs]
    shifted = [m.fma(a, m.c(1 / ERF_STEP), m.c(MAGIC)) for a in magnitudes]
    distances = [m.fma(m.sub(s, m.c(MAGIC)), m.c(-ERF_STEP), a) for s, a in zip(shifted, magnitudes, strict=True)]
    ys = vectors.polynomial(ERF_PIECES, [m.bits(s) for s in shifted], distances)
    return [m.copysign(y, x) for y, x in zip(ys, xs, strict=True)]


def is_near_a_middle(m: Lanes, y: Value) -> Value:
    """Whether the error could decide how `y` is rounded to f32."""
    cut = m.int("andi", m.int("addi", m.bits(y), _NEAR - (1 << _CUT - 1)), (1 << _CUT) - 1)
    return m.code.compare("ult", cut, m.i(2 * _NEAR))
