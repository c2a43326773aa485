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
from numc.passes.kernels.values.math_functions import LN2, LN2_REST
from numc.passes.kernels.values.math_tables import ERF_PIECES, ERF_STEP, EXP_POWERS, EXP_RESTS


class Checked(NamedTuple):
    """Values of a function, and the lanes in which they may be wrong (i1)."""

    value: Value
    doubt: Value


@dataclass(frozen=True)
class Vectors:
    """Code on vectors of f32, for an instruction set that has look-ups: see InstructionSet."""

    code: Code
    lookup: Callable[[Code, Sequence[float], Value], Value]


# --- exp --------------------------------------------------------------------------------------------------------------

# Where no part of the sum of two numbers that is e^x loses bits below the normal range; and where e^x is +0.
_EXP_FAR, _EXP_ZERO = 77.0, -104.0
# A bound of the error, relative to e^x. Of rounding errors there are 4.3 * 2^-38 (the square, the polynomial, the
# sums), of omitted terms 0.4 * 2^-38, and math_functions.py has 0.2 * 2^-38.
_EXP_ERROR = 2.0**-35.5
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

# Beyond this, erf is 1 in f32; the nearest multiple of the step is still one of the table's.
_ERF_ONE = 3.93
# A bound of the error, relative to erf(x): 2^-37.2 were measured, and math_functions.py has 2^-40.
_ERF_ERROR = 2.0**-36
# Where products lose bits below the normal range, their error is at most this.
_ERF_LOST = 2.0**-148


def erf(vectors: Vectors, x: Value) -> Checked:
    """|x| times a polynomial of the distance from |x| to the nearest multiple of a step, as the sum of two f32 numbers.

    The coefficients are looked up, the lowest three as sums of two f32 numbers, too.
    """
    code = vectors.code
    add, sub, mul = (partial(code.binary, name) for name in ("addf", "subf", "mulf"))
    size, one, magic = code.unary("math.absf", x), code.f32(_ERF_ONE), code.f32(1.5 * 2.0**23 * ERF_STEP)
    size = code.select(code.compare("ogt", size, one), one, size)  # NaN stays
    shifted = add(size, magic)
    distance, bits = sub(size, sub(shifted, magic)), code.cast("bitcast", shifted, "i32")
    high = [vectors.lookup(code, power, bits) for power in ERF_PIECES]
    y = high[-1]
    for coefficient in reversed(high[3:-1]):
        y = code.fma(distance, y, coefficient)
    low: Value | None = None
    for power, coefficient in reversed(list(zip(ERF_PIECES, high[:3], strict=False))):
        rest = vectors.lookup(code, [c - f32_value(f32_bits(c)) for c in power], bits)
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
