"""Cheap roundings for micro-kernels, each with the condition under which it is exact.

Round to p <= 11 significant bits with two FMAs (a Veltkamp-style split):
``C = 2^(24-p); y = fma(x, -C, x); r = fma(x, C, y)``. The condition is checked per tile on the packed
operands and on the accumulator; a tile that does not meet it runs the exact sequence of `operators.py`, so no bit
depends on which one ran.
"""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.fma import Fma
from numc.passes.code import Code
from numc.passes.operators import emit_sum


@dataclass(frozen=True)
class Guard:
    """When the cheap sequence is exact, as bounds on exponents (powers of two) of the operands and the accumulator.

    largest: every partial sum must stay below ``2 ** largest``.
    product: the smallest non-zero products ``2 ** (emin_a + emin_b)`` must reach ``2 ** product``.
    accumulator: non-zero accumulators at entry must reach ``2 ** accumulator``.
    """

    largest: int
    product: int
    accumulator: int


def guard(fma: Fma) -> Guard | None:
    """Return the condition of the cheap sequence of `fma`, or None where there is no cheap sequence."""
    to = fma.acc
    fmt = to.format
    if fma.datapath != "fp32" or fma.product is not None or to.rounding != "rne":
        return None
    # An operand with p significant bits is a multiple of 2^(e-p+1); a compound value is one of at most 24 bits.
    grid = sum(23 if c.format.parts > 1 else c.format.significand_bits for c in (fma.a, fma.b))
    if fmt.parts == 3:
        # Identity on multiples of 2^-133 below the bf16 overflow threshold; chained products must not underflow.
        return Guard(largest=126, product=-120 + grid, accumulator=-126)
    if fmt.parts == 2:
        return Guard(largest=110, product=-108 + grid, accumulator=-86)
    if fmt.precision not in range(2, 12):
        return None
    if fmt.exponent_bits == 8 and fmt.subnormals:
        if any(c.format.parts > 1 for c in (fma.a, fma.b)):
            return Guard(largest=109, product=-108 + grid, accumulator=-126)
        return Guard(largest=109, product=fmt.emin - fmt.significand_bits + grid, accumulator=-149)
    if fmt.exponent_bits < 8:
        single = all(c.format.parts == 1 for c in (fma.a, fma.b))
        return Guard(largest=fmt.emax, product=-149 + grid if single else -108 + grid, accumulator=-149)
    return None


def emit_fast_fma(code: Code, a: list[str], b: list[str], c: str, fma: Fma) -> str:
    """Append one step of `fma` that is exact under ``guard(fma)``; returns the name of D."""
    x = emit_sum(code, a, b, c, fma)
    fmt = fma.acc.format
    if fmt.parts == 3:
        return x
    if fmt.parts == 2:
        factor = 2.0**16
        y = code.fma(x, code.f32(-factor), x)
        rest = code.fma(x, code.f32(-(factor - 1)), _negate(code, y))
        t = code.fma(rest, code.f32(-factor), rest)
        second = code.fma(rest, code.f32(factor - 1), t)
        return code.binary("addf", x, second)
    if fmt.exponent_bits == 8:
        return _two_fmas(code, x, x, fmt.precision)
    bits = code.cast("bitcast", x, "f32", "i32")
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF), "i32")
    sign = code.binary("andi", bits, code.int(0x80000000), "i32")
    if fmt.subnormals:
        # The split constant is taken from max(|x|, 1.5 * 2^emin): below 2^emin the quantum stops shrinking.
        least = code.int((fmt.emin + 127) << 23 | 1 << 22)
        scale = code.cast(
            "bitcast", code.binary("ori", code.binary("maxsi", magnitude, least, "i32"), sign, "i32"), "i32", "f32"
        )
        rounded = _two_fmas(code, x, scale, fmt.precision)
        # A result of zero keeps the sign of x.
        return code.cast(
            "bitcast", code.binary("ori", code.cast("bitcast", rounded, "f32", "i32"), sign, "i32"), "i32", "f32"
        )
    rounded = _two_fmas(code, x, x, fmt.precision)
    flushed = code.compare("ult", magnitude, code.int((fmt.emin + 127) << 23))
    zero = code.cast("bitcast", sign, "i32", "f32")
    return code.select(flushed, zero, rounded)


def _two_fmas(code: Code, x: str, scale: str, precision: int) -> str:
    factor = 2.0 ** (24 - precision)
    y = code.fma(scale, code.f32(-factor), x)
    return code.fma(scale, code.f32(factor), y)


def _negate(code: Code, x: str) -> str:
    return code.op(f"arith.negf {x} : {code.ty('f32')}")
