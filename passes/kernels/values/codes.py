"""Numbers from their codes in memory, and codes of numbers that a format has: exact, in the way of Format.decode."""

from __future__ import annotations

from numc.compiler.arithmetic.formats import FORMATS, Format
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value

_INFINITY, _NAN = 0x7F800000, 0x7FC00000
_FP32 = FORMATS["fp32"]


def emit_widened(code: Code, x: Value, fmt: Format) -> Value:
    """Append the float32 that has the code `x`, an i32, in a format."""
    shift, rebias = _distance(fmt)
    sign = code.binary("shli", code.binary("shrui", x, code.int(fmt.bits - 1)), code.int(31))
    magnitude = code.binary("andi", x, code.int((1 << fmt.bits - 1) - 1))
    bits = code.binary("shli", magnitude, code.int(shift))
    if rebias:
        # A subnormal is a whole number of quanta; as the bits of a float32 it would be another subnormal.
        quantum = code.f32(float(fmt.min_subnormal))
        small = code.cast("bitcast", code.binary("mulf", code.cast("sitofp", magnitude, "f32"), quantum), "i32")
        is_small = code.compare("ult", magnitude, code.int(1 << fmt.significand_bits))
        normal = code.binary("addi", bits, code.int(rebias))
        special = code.int(_NAN) if fmt.finite else code.binary("ori", bits, code.int(_INFINITY))
        is_special = code.compare("uge", magnitude, code.int(_first_special(fmt)))
        bits = code.select(is_small, small, code.select(is_special, special, normal))
    return code.cast("bitcast", code.binary("ori", bits, sign), "f32")


def code_bits(fmt: Format) -> int:
    """How many bits the code of a number of a format has, of one of its parts."""
    return fmt.bits // fmt.parts


def emit_unpacked(code: Code, low: Value, high: Value | None, first: int | Value, fmt: Format) -> Value:
    """Append the float32 numbers whose codes begin at bit `first` (a constant or an i32) of the words `low`.

    high: the words that follow; None if no code goes on there.
    """
    bits = code_bits(fmt)
    if not _distance(fmt)[1]:  # as many exponent bits as a float32 has: a code is its first bits
        if high is None:
            place = 32 - bits - first if isinstance(first, int) else code.binary("subi", code.int(32 - bits), first)
            return code.cast("bitcast", _cut(code, _shifted(code, "shli", low, place), bits, place), "f32")
        return code.cast("bitcast", code.binary("shli", _joined(code, low, high, first), code.int(32 - bits)), "f32")
    x = _shifted(code, "shrui", low, first) if high is None else _joined(code, low, high, first)
    if first != 32 - bits:
        x = code.binary("andi", x, code.int((1 << bits) - 1))
    return emit_widened(code, x, fmt)


def _shifted(code: Code, name: str, x: Value, by: int | Value) -> Value:
    if isinstance(by, int):
        return code.binary(name, x, code.int(by)) if by else x
    return code.binary(name, x, by)


def _cut(code: Code, x: Value, bits: int, shifted: int | Value) -> Value:
    """The first `bits` bits of a word that was shifted up: there is nothing else if that was as far as it goes."""
    return x if shifted == 32 - bits else code.binary("andi", x, code.int((1 << bits) - 1 << 32 - bits))


def _joined(code: Code, low: Value, high: Value, first: int | Value) -> Value:
    """The bits from bit `first` on, which go on in the next word; in two steps, because no shift is by 32 bits."""
    rest = 31 - first if isinstance(first, int) else code.binary("subi", code.int(31), first)
    above = code.binary("shli", _shifted(code, "shli", high, rest), code.int(1))
    return code.binary("ori", _shifted(code, "shrui", low, first), above)


def emit_narrowed(code: Code, x: Value, fmt: Format) -> Value:
    """Append the code, an i32, of a float32 that a format has; every NaN has the code of Format.encode."""
    shift, rebias = _distance(fmt)
    bits = code.cast("bitcast", x, "i32")
    sign = code.binary("shli", code.binary("shrui", bits, code.int(31)), code.int(fmt.bits - 1))
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF))
    found = code.binary("shrui", magnitude, code.int(shift))
    if rebias:
        quanta = code.binary("mulf", code.cast("bitcast", magnitude, "f32"), code.f32(float(1 / fmt.min_subnormal)))
        is_small = code.compare("ult", magnitude, code.int(rebias + (1 << _FP32.significand_bits)))
        # Only a small number is converted: of others the result would be undefined.
        small = code.cast("fptosi", code.select(is_small, quanta, code.f32(0.0)), "i32")
        normal = code.binary("shrui", code.binary("subi", magnitude, code.int(rebias)), code.int(shift))
        is_infinity = code.compare("eq", magnitude, code.int(_INFINITY))
        finite = normal if fmt.finite else code.select(is_infinity, code.int(_first_special(fmt)), normal)
        found = code.select(is_small, small, finite)
    is_nan = code.compare("ugt", magnitude, code.int(_INFINITY))
    return code.select(is_nan, code.int(fmt.encode(float("nan"))), code.binary("ori", found, sign))


def _distance(fmt: Format) -> tuple[int, int]:
    """How many significand bits a float32 has more, and what its biased exponent has more, in its place."""
    return _FP32.significand_bits - fmt.significand_bits, (_FP32.bias - fmt.bias) << _FP32.significand_bits


def _first_special(fmt: Format) -> int:
    """The smallest magnitude of a code that is no finite number: that of the infinity, or the only NaN."""
    return (1 << fmt.bits - 1) - 1 if fmt.finite else fmt.encode(float("inf"))
