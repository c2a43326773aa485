"""Elementary functions of f32 in fewer operations, with a check: the bits are those of math_functions.py.

That module rounds a binary64 number to f32 once. Where this module's number is so far from the middle between two f32
values that its error and that of math_functions.py cannot matter, both are rounded to the same value. The rare others
are computed by math_functions.py: a vector asks whether it has one of them in a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import Elementary
from numc.passes.kernels.ssa import Value, f32_bits, f32_value
from numc.passes.kernels.values.math_functions import LN2, LN2_REST
from numc.passes.kernels.values.math_tables import ERF_PIECES, ERF_STEP, EXP_POWERS, EXP_RESTS


class Checked(NamedTuple):
    """Values of a function, and the lanes in which they may be wrong (i1).

    again: if given, what makes better ones of these two in a few operations, where a vector has such lanes.
    """

    value: Value
    doubt: Value
    again: Callable[[Value, Value], tuple[Value, Value]] | None = None


# --- exp --------------------------------------------------------------------------------------------------------------

# e^x is +0 below this.
_EXP_ZERO = -104.0
# A bound of the error, relative to e^x. Of rounding errors there are 4.3 * 2^-38 (the square, the polynomial, the
# sums), of omitted terms 0.4 * 2^-38, and math_functions.py has 0.2 * 2^-38.
_EXP_ERROR = 2.0**-35.5


def exp(code: Code, isa: Elementary, x: Value) -> Checked:
    """e^x as the sum of two f32 numbers: 2^(n mod 1) looked up, times a polynomial of the rest of x; times 2^floor(n).

    P. T. P. Tang, Table-driven implementation of the exponential function in IEEE floating-point arithmetic, 1989.
    """
    add, sub, mul = (partial(code.binary, name) for name in ("addf", "subf", "mulf"))
    magic, high = code.f32(1.5 * 2.0**18), f32_value(f32_bits(LN2))
    # n = x / ln 2, rounded to 32nds, which the low bits of `shifted` count; rest = x - n * high is exact.
    shifted = code.fma(x, code.f32(1 / LN2), magic)
    n, bits = sub(shifted, magic), code.cast("bitcast", shifted, "i32")
    rest = code.fma(n, code.f32(-high), x)
    power = isa.lookup(code, EXP_POWERS, bits)
    # What the power and `high` were rounded by, less the error: the result is a lower bound.
    lost = isa.lookup(code, [r - _EXP_ERROR for r in EXP_RESTS], bits)
    small = code.fma(n, code.f32(high - LN2 - LN2_REST), lost)
    r = add(rest, small)
    series = code.fma(r, code.fma(r, code.f32(1 / 24), code.f32(1 / 6)), code.f32(0.5))
    small = code.fma(mul(r, r), series, small)
    # power * (1 + rest + small), which is about 2 at most, as the sum of two numbers
    near = code.fma(power, rest, power)
    error = code.fma(power, rest, sub(power, near))
    low = code.fma(power, small, error)
    y, above = add(near, low), add(near, add(low, code.f32(4 * _EXP_ERROR)))
    result = isa.scale(code, y, n)

    def again(y: Value, doubt: Value) -> tuple[Value, Value]:
        """What is far below zero, as the scores that a mask leaves out, is not in doubt."""
        zero = code.compare("olt", x, code.f32(_EXP_ZERO))
        inside = code.compare("uge", x, code.f32(_EXP_ZERO))
        return code.select(zero, code.f32(0.0), y), code.binary("andi", doubt, inside)

    # A subnormal result would be rounded twice. Far below zero n and the rest of x lose bits, but what is scaled to
    # zero there is the value of a positive polynomial, unless it is infinite or NaN.
    return Checked(result, code.binary("ori", code.compare("une", y, above), isa.is_special(code, result)), again)


# --- erf --------------------------------------------------------------------------------------------------------------

# Beyond this, erf is 1 in f32; the nearest multiple of the step is still one of the table's.
_ERF_ONE = 3.93
# A bound of the error, relative to erf(x): 2^-37.2 were measured, and math_functions.py has 2^-40.
_ERF_ERROR = 2.0**-36
# Where products lose bits below the normal range, their error is at most this.
_ERF_LOST = 2.0**-148


def erf(code: Code, isa: Elementary, x: Value) -> Checked:
    """|x| times a polynomial of the distance from |x| to the nearest multiple of a step, as the sum of two f32 numbers.

    The coefficients are looked up, the lowest three as sums of two f32 numbers, too.
    """
    add, sub, mul = (partial(code.binary, name) for name in ("addf", "subf", "mulf"))
    size, one, magic = code.unary("math.absf", x), code.f32(_ERF_ONE), code.f32(1.5 * 2.0**23 * ERF_STEP)
    size = code.select(code.compare("ogt", size, one), one, size)  # NaN stays
    shifted = add(size, magic)
    distance, bits = sub(size, sub(shifted, magic)), code.cast("bitcast", shifted, "i32")
    high = [isa.lookup(code, power, bits) for power in ERF_PIECES]
    y = high[-1]
    for coefficient in reversed(high[3:-1]):
        y = code.fma(distance, y, coefficient)
    low: Value | None = None
    for power, coefficient in reversed(list(zip(ERF_PIECES, high[:3], strict=False))):
        rest = isa.lookup(code, [c - f32_value(f32_bits(c)) for c in power], bits)
        if low is not None:
            rest = code.fma(distance, low, rest)
        near = code.fma(distance, y, coefficient)
        low = add(code.fma(distance, y, sub(coefficient, near)), rest)
        y = near
    assert low is not None
    near = mul(size, y)
    low = code.fma(size, low, code.fma(size, y, code.unary("arith.negf", near)))
    lost = code.f32(_ERF_LOST)
    lost = code.select(code.compare("olt", size, lost), size, lost)  # none at zero
    error = code.fma(near, code.f32(_ERF_ERROR), lost)
    y, above = add(near, sub(low, error)), add(near, add(low, error))
    signed = code.op(f"math.copysign {y}, {x} : {y.type}", y.type)
    return Checked(signed, code.compare("une", y, above))
