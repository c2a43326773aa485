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
from numc.passes.kernels.isa.instruction_set import Elementary, Exponential
from numc.passes.kernels.ssa import Value, f32_bits, f32_value
from numc.passes.kernels.values.math_functions import LN2, LN2_REST
from numc.passes.kernels.values.math_tables import ERF_PIECES, EXP_POWERS, EXP_RESTS


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


def exp(isa: Exponential, code: Code, x: Value) -> Checked:
    """e^x as the sum of two f32 numbers: 2^(n mod 1) looked up, times a polynomial of the rest of x; times 2^floor(n).

    P. T. P. Tang, Table-driven implementation of the exponential function in IEEE floating-point arithmetic, 1989.
    """
    add, sub = (partial(code.binary, name) for name in ("addf", "subf"))
    power, n, rest, small = _reduced(isa, code, x, -_EXP_ERROR)  # less the error: y is a lower bound
    # power * (1 + rest + small), which is about 2 at most, as the sum of two numbers
    near = code.fma(power, rest, power)
    error = code.fma(power, rest, sub(power, near))
    low = code.fma(power, small, error)
    y, above = add(near, low), add(near, add(low, code.f32(4 * _EXP_ERROR)))
    result = isa.scale(code, y, n)

    def again(y: Value, doubt: Value) -> tuple[Value, Value]:
        """Values far below zero, as the scores that a mask leaves out, are not in doubt."""
        zero = code.compare("olt", x, code.f32(_EXP_ZERO))
        inside = code.compare("uge", x, code.f32(_EXP_ZERO))
        return code.select(zero, code.f32(0.0), y), code.binary("andi", doubt, inside)

    # A subnormal result would be rounded twice. Far below zero n and the rest of x lose bits, but what is scaled to
    # zero there is the value of a positive polynomial, unless it is infinite or NaN.
    return Checked(result, code.binary("ori", code.compare("une", y, above), isa.is_special(code, result)), again)


def _reduced(isa: Exponential, code: Code, x: Value, more: float = 0.0) -> tuple[Value, Value, Value, Value]:
    """Return power, n, rest, small with e^x = power * 2^floor(n) * (1 + rest + small - more).

    n is x / ln 2, rounded to 32nds; the power is 2^(n mod 1), and rest = x - n ln(2), both rounded.
    """
    magic, high = code.f32(1.5 * 2.0**18), f32_value(f32_bits(LN2))
    shifted = code.fma(x, code.f32(1 / LN2), magic)
    # The low bits of `shifted` count the 32nds.
    n, bits = code.binary("subf", shifted, magic), code.cast("bitcast", shifted, "i32")
    rest = code.fma(n, code.f32(-high), x)  # x - n * high is exact
    # What the power and `high` were rounded by.
    lost = isa.lookup(code, [r + more for r in EXP_RESTS], bits)
    small = code.fma(n, code.f32(high - LN2 - LN2_REST), lost)
    r = code.binary("addf", rest, small)
    series = code.fma(r, code.fma(r, code.f32(1 / 24), code.f32(1 / 6)), code.f32(0.5))
    return isa.lookup(code, EXP_POWERS, bits), n, rest, code.fma(code.binary("mulf", r, r), series, small)


# --- tanh -------------------------------------------------------------------------------------------------------------

# Below this the sum e^2|x| + 1 and what it is rounded by are exact; and beyond this tanh is 1 in f32.
_TANH_FAR, _TANH_ONE = 8.6, 9.02
# Bounds of the error, relative to tanh(x) and absolute, of which the smaller one counts. With reciprocals as wrong as
# they may be 2^-29.9 and 2^-36.9 were found, and math_functions.py has 2^-37.6 of tanh(x).
_TANH_ERRORS = 2.0**-29.5, 2.0**-36.2


def tanh(isa: Exponential, code: Code, x: Value) -> Checked:
    """e / (e + 2), e = e^2|x| - 1: numerator, denominator and quotient as sums of two f32 numbers."""
    add, sub, mul = (partial(code.binary, name) for name in ("addf", "subf", "mulf"))
    size = code.unary("math.absf", x)
    power, n, rest, small = _reduced(isa, code, add(size, size))
    power = isa.scale(code, power, n)
    less_one = sub(power, code.f32(1.0))
    near = code.fma(power, rest, less_one)
    low = code.fma(power, small, code.fma(power, rest, sub(less_one, near)))
    e = add(near, low)
    e_rest = sub(low, sub(e, near))
    two = code.f32(2.0)
    divisor = add(e, two)
    divisor_rest = add(sub(e, sub(divisor, two)), e_rest)
    near = code.binary("divf", e, divisor)
    negative = code.unary("arith.negf", near)
    rest = add(code.fma(negative, divisor, e), code.fma(negative, divisor_rest, e_rest))
    low = mul(rest, isa.reciprocal(code, divisor))
    relative, absolute = (code.f32(bound) for bound in _TANH_ERRORS)
    error = mul(near, relative)
    error = code.select(code.compare("olt", error, absolute), error, absolute)
    y, above = add(near, sub(low, error)), add(near, add(low, error))

    def signed(y: Value) -> Value:
        return code.op(f"math.copysign {y}, {x} : {y.type}", y.type)

    def again(y: Value, doubt: Value) -> tuple[Value, Value]:
        """Values far from zero are not in doubt."""
        saturated, inside = (code.compare(how, size, code.f32(_TANH_ONE)) for how in ("ogt", "ule"))
        return code.select(saturated, signed(code.f32(1.0)), y), code.binary("andi", doubt, inside)

    far = code.compare("ogt", size, code.f32(_TANH_FAR))
    return Checked(signed(y), code.binary("ori", code.compare("une", y, above), far), again)


# --- erf --------------------------------------------------------------------------------------------------------------

# Beyond this, erf is 1 in f32.
_ERF_ONE = 3.93
# With so many pieces: how many of the lowest powers are sums of two f32 numbers, and a bound of the error, relative to
# erf(x). 2^-37.2 and 2^-33.4 were measured, and math_functions.py has 2^-40.
_ERF_SUMS, _ERF_ERRORS = {32: 3, 8: 4}, {32: 2.0**-36.7, 8: 2.0**-33.1}
# Where products lose bits below the normal range, their error is at most 2^-148. A subnormal operand would cost Intel's
# processors 150 cycles for every vector.
_ERF_LOST = 2.0**-126


def erf(isa: Elementary, code: Code, x: Value) -> Checked:
    """|x| times a polynomial of the distance from |x| to the nearest multiple of a step, as the sum of two f32 numbers.

    The coefficients are looked up, the lowest as sums of two f32 numbers unless one is enough.
    """
    add, sub, mul = (partial(code.binary, name) for name in ("addf", "subf", "mulf"))
    step, powers = ERF_PIECES[isa.entries]
    most, sums, last = _ERF_ERRORS[isa.entries], _ERF_SUMS[isa.entries], (isa.entries - 0.5) * step

    def at_most(x: Value, most: float) -> Value:
        """NaN stays."""
        return code.select(code.compare("ogt", x, code.f32(most)), code.f32(most), x)

    size, magic = at_most(code.unary("math.absf", x), _ERF_ONE), code.f32(1.5 * 2.0**23 * step)
    inside = size if last > _ERF_ONE else at_most(size, f32_value(f32_bits(last) - 1))
    shifted = add(inside, magic)
    distance, bits = sub(size, sub(shifted, magic)), code.cast("bitcast", shifted, "i32")
    high = [isa.lookup(code, power, bits) for power in powers]
    y, low = high[-1], None
    for coefficient in reversed(high[sums:-1]):
        y = code.fma(distance, y, coefficient)
    for power, coefficient in reversed([*zip(powers, high, strict=True)][:sums]):
        near = code.fma(distance, y, coefficient)
        exact = code.fma(distance, y, sub(coefficient, near))
        rests = [c - f32_value(f32_bits(c)) for c in power]
        if any(rests):
            rest = isa.lookup(code, rests, bits)
            exact = add(exact, rest if low is None else code.fma(distance, low, rest))
        y, low = near, exact
    assert low is not None
    near = mul(size, y)
    low = code.fma(size, low, code.fma(size, y, code.unary("arith.negf", near)))
    lost = code.f32(_ERF_LOST)
    lost = code.select(code.compare("olt", size, lost), size, lost)  # none at zero
    error = code.fma(near, code.f32(most), lost)
    y, above = add(near, sub(low, error)), add(near, add(low, error))
    signed = code.op(f"math.copysign {y}, {x} : {y.type}", y.type)
    return Checked(signed, code.compare("une", y, above))
