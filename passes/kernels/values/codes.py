"""Numbers from their codes in memory, and codes of numbers that a format has: exact, in the way of Format.decode."""

from __future__ import annotations

from numc.numerics.binary32 import INFINITY, NAN
from numc.numerics.formats import RECORDS, Conversion, Format, Record
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.rounding import emit_round

_FP32 = RECORDS["fp32"]


def emit_widened(code: Code, x: Value, fmt: Format) -> Value:
    """Append the float32 that has the code `x`, an i32, in a usual format."""
    return emit_widened_top(code, code.binary("shli", x, code.int(32 - code_bits(fmt))), fmt, clean=True)


def _usual(fmt: Format) -> Record:
    assert isinstance(fmt, Record)
    assert fmt.is_usual
    return fmt


def emit_widened_top(code: Code, top: Value, fmt: Format, *, clean: bool) -> Value:
    """Append the float32 whose code is the first bits of `top`, an i32. clean: there are only zeros behind."""
    fmt = _usual(fmt)
    _, rebias = _distance(fmt)
    unused, sign = 32 - code_bits(fmt), 1 << 31
    if not rebias:  # a code is the first bits of the float32
        return code.cast(
            "bitcast", top if clean else code.binary("andi", top, code.int((1 << 32) - (1 << unused))), "f32"
        )
    below = _FP32.exponent_bits - fmt.exponent_bits  # how far the first bit of the exponent has to go
    bits = code.binary("shrui", code.binary("shli", top, code.int(1)), code.int(1 + below))
    if not clean:
        bits = code.binary("andi", bits, code.int((1 << 31 - below) - (1 << unused - below)))
    normal = code.binary("addi", bits, code.int(rebias))
    wide = code.cast("bitcast", normal, "f32")
    if fmt.subnormals:
        # (1 + f) 2^(emin - 1) in place of f 2^emin, because a subnormal float32 takes long.
        small = code.binary("subf", code.binary("addf", wide, wide), code.f32(float(fmt.min_normal)))
    else:
        small = code.f32(0.0)
    is_small = code.compare("ult", bits, code.int(1 << _FP32.significand_bits))
    unsigned = code.cast("bitcast", code.select(is_small, small, wide), "i32")
    if fmt.has_nan or fmt.has_infinities:
        special = code.int(NAN) if fmt.finite else code.binary("ori", bits, code.int(INFINITY))
        is_special = code.compare("uge", bits, code.int(_first_special(fmt) << unused - below))
        unsigned = code.select(is_special, special, unsigned)
    return code.cast("bitcast", code.binary("ori", unsigned, code.binary("andi", top, code.int(sign))), "f32")


def code_bits(fmt: Format) -> int:
    """The bits of the code of a number of a format, of one of its parts."""
    return fmt.bits // fmt.parts


def emit_narrowed(code: Code, x: Value, fmt: Format) -> Value:
    """Append the code, an i32, of a float32 that a format has; every NaN has the code of Format.encode."""
    fmt = _usual(fmt)
    shift, rebias = _distance(fmt)
    bits = code.cast("bitcast", x, "i32")
    if not rebias:  # a code is the first bits of the float32
        is_nan = code.compare("uno", x, x)
        return code.select(is_nan, code.int(fmt.encode(float("nan"))), code.binary("shrui", bits, code.int(shift)))
    sign = code.binary("shli", code.binary("shrui", bits, code.int(31)), code.int(fmt.bits - 1))
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF))
    quanta = code.binary("mulf", code.cast("bitcast", magnitude, "f32"), code.f32(float(1 / fmt.min_subnormal)))
    is_small = code.compare("ult", magnitude, code.int(rebias + (1 << _FP32.significand_bits)))
    # Only a small number is converted: of others the result would be undefined.
    small = code.cast("fptosi", code.select(is_small, quanta, code.f32(0.0)), "i32")
    normal = code.binary("shrui", code.binary("subi", magnitude, code.int(rebias)), code.int(shift))
    is_infinity = code.compare("eq", magnitude, code.int(INFINITY))
    finite = normal if fmt.finite else code.select(is_infinity, code.int(_first_special(fmt)), normal)
    unsigned = code.select(is_small, small, finite)
    is_nan = code.compare("ugt", magnitude, code.int(INFINITY))
    return code.select(is_nan, code.int(fmt.encode(float("nan"))), code.binary("ori", unsigned, sign))


def emit_encoded(code: Code, x: Value, to: Conversion) -> Value:
    """Append the code, an i32, of a float32 that is rounded to a format, without random bits."""
    fmt = _usual(to.format)
    shift, rebias = _distance(fmt)
    if rebias or to.rounding != "rne" or not fmt.subnormals:
        return emit_narrowed(code, emit_round(code, x, to), fmt)
    # A code is the first bits of the float32: a carry goes on into the exponent, and into that of the infinities.
    bits = code.cast("bitcast", x, "i32")
    odd = code.binary("andi", code.binary("shrui", bits, code.int(shift)), code.int(1))
    nearest = code.binary("addi", bits, code.binary("addi", odd, code.int((1 << shift - 1) - 1)))
    rounded = code.binary("shrui", nearest, code.int(shift))
    return code.select(code.compare("uno", x, x), code.int(fmt.encode(float("nan"))), rounded)


def _distance(fmt: Record) -> tuple[int, int]:
    """The significand bits that a float32 has more, and the excess of its biased exponent, in its place."""
    return _FP32.significand_bits - fmt.significand_bits, (_FP32.bias - fmt.bias) << _FP32.significand_bits


def _first_special(fmt: Record) -> int:
    """The smallest magnitude of a code that is no finite number: that of the infinity, or the only NaN."""
    return (1 << fmt.bits - 1) - 1 if fmt.finite else fmt.encode(float("inf"))
