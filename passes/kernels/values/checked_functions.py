"""Elementary functions of f32 in fewer operations, with a check: the bits are those of math_functions.py.

That module rounds a binary64 number to f32 once. Where this module's number is so far from the middle between two f32
values that its error and that of math_functions.py cannot matter, both are rounded to the same value. The rare others
are computed by math_functions.py: a vector asks whether it has one of them in a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value, f32_bits, f32_value
from numc.passes.kernels.values.math_functions import LN2, LN2_REST, MAGIC, Lanes
from numc.passes.kernels.values.math_tables import ERF_PIECES, ERF_STEP, EXP_POWERS, EXP_RESTS

# Lanes of a vector of binary64 numbers, in which tables of eight numbers are looked up.
_EIGHT = 8
# The relative error of both numbers together is below 2^-38: so many units of a binary64 number's last place.
_NEAR = 1 << 53 - 38
# The bits of a binary64 number that f32 has no room for.
_CUT = 29


class Checked(NamedTuple):
    """Values of a function, and the lanes in which they may be wrong (i1)."""

    value: Value
    doubt: Value


@dataclass(frozen=True)
class Vectors:
    """Code on vectors of f32, for an instruction set that has these two: see InstructionSet."""

    code: Code
    lookup: Callable[[Code, Sequence[float], Value], Value]
    barrier: Callable[[Code, Sequence[Value]], list[Value]]


# --- exp --------------------------------------------------------------------------------------------------------------

# Where no part of the sum of two numbers that is e^x loses bits below the normal range; and where e^x is +0.
_EXP_FAR, _EXP_ZERO = 77.0, -104.0
# A bound of the error, relative to e^x. Of rounding errors there are 4.3 * 2^-38 (the square, the polynomial, the
# sums), of omitted terms 0.4 * 2^-38, and math_functions.py has 0.2 * 2^-38.
_EXP_ERROR = 2.0**-35
_EXP_SHIFT = 18  # from the lowest bit of the exponent of 2^(n / 32) in n to where f32 has it


def exp(vectors: Vectors, x: Value) -> Checked:
    """e^x as the sum of two f32 numbers: 2^(n / 32) looked up, times a polynomial of the rest of x.

    P. T. P. Tang, Table-driven implementation of the exponential function in IEEE floating-point arithmetic, 1989.
    """
    code = vectors.code
    add, sub, mul = (partial(code.binary, name) for name in ("addf", "subf", "mulf"))
    magic, step = code.f32(1.5 * 2.0**23), LN2 / 32
    high = f32_value(f32_bits(step))
    # n = round(32 x / ln 2), which the low bits of `shifted` hold; rest = x - n * high is exact.
    shifted = code.fma(x, code.f32(1 / step), magic)
    n, bits = sub(shifted, magic), code.cast("bitcast", shifted, "i32")
    rest = code.fma(n, code.f32(-high), x)
    # The power in the table, whose encoding has no place for n yet, gets the exponent that n says.
    table = [f32_value(f32_bits(power) - (j << _EXP_SHIFT)) for j, power in enumerate(EXP_POWERS)]
    encoding = code.cast("bitcast", vectors.lookup(code, table, bits), "i32")
    exponent = code.binary("shli", bits, code.int(_EXP_SHIFT))
    power = code.cast("bitcast", code.binary("addi", encoding, exponent), "f32")
    # What the power and `high` were rounded by, less the error: the result is a lower bound.
    lost = vectors.lookup(code, [r - _EXP_ERROR for r in EXP_RESTS], bits)
    small = code.fma(n, code.f32(high - step - LN2_REST / 32), lost)
    r = add(rest, small)
    series = code.fma(r, code.fma(r, code.f32(1 / 24), code.f32(1 / 6)), code.f32(0.5))
    small = code.fma(mul(r, r), series, small)
    # power * (1 + rest + small) as the sum of two numbers
    near = code.fma(power, rest, power)
    error = code.fma(power, rest, sub(power, near))
    low = code.fma(power, small, error)
    y, above = add(near, low), add(near, code.fma(power, code.f32(2 * _EXP_ERROR), low))
    zero = code.compare("olt", x, code.f32(_EXP_ZERO))
    far = code.compare("ugt", code.unary("math.absf", x), code.f32(_EXP_FAR))
    doubt = code.binary("ori", code.compare("une", y, above), far)
    return Checked(
        code.select(zero, code.f32(0.0), y), code.binary("andi", doubt, code.compare("uge", x, code.f32(_EXP_ZERO)))
    )


# --- erf --------------------------------------------------------------------------------------------------------------


def erf(vectors: Vectors, x: Value) -> Checked:
    """Error function: a binary64 polynomial of the distance to the nearest multiple of a step, 1 from 4 on."""
    code, part = vectors.code, vectors.code.lanes(_EIGHT)
    m = Lanes(part, wide=False)
    halves = [part.shuffle(x, range(n, n + _EIGHT)) for n in range(0, code.width, _EIGHT)]
    xs = [part.cast("extf", half, "f64") for half in halves]
    magnitudes = [m.at_most(m.abs(x), 4.0) for x in xs]
    shifted = [m.fma(a, m.c(1 / ERF_STEP), m.c(MAGIC)) for a in magnitudes]
    distances = [m.fma(m.sub(s, m.c(MAGIC)), m.c(-ERF_STEP), a) for s, a in zip(shifted, magnitudes, strict=True)]
    found = _polynomial(vectors, m, ERF_PIECES, [m.bits(s) for s in shifted], distances)
    ys = [m.copysign(y, x) for y, x in zip(found, xs, strict=True)]
    doubts = code.joined([_is_near_a_middle(m, y) for y in ys])
    return Checked(code.joined([part.cast("truncf", y, "f32") for y in ys]), doubts)


def _polynomial(
    vectors: Vectors, m: Lanes, table: Sequence[Sequence[float]], indices: list[Value], at: list[Value]
) -> list[Value]:
    """The polynomials whose coefficients, the lowest first, are looked up.

    Vectors are computed side by side, so that a chain of operations waits for nothing.
    """
    result = [vectors.lookup(m.code, table[-1], index) for index in indices]
    for power in reversed(table[:-1]):
        looked = [vectors.lookup(m.code, power, index) for index in indices]
        result = vectors.barrier(m.code, [m.fma(*terms) for terms in zip(result, at, looked, strict=True)])
    return result


def _is_near_a_middle(m: Lanes, y: Value) -> Value:
    """Whether the error could decide how `y` is rounded to f32."""
    cut = m.int("andi", m.int("addi", m.bits(y), _NEAR - (1 << _CUT - 1)), (1 << _CUT) - 1)
    return m.code.compare("ult", cut, m.i(2 * _NEAR))
