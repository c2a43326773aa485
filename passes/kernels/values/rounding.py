"""Roundings as straight-line code, exact for every input (arithmetic.md section 2).

A kind of formats has a sequence of its own, or the one that takes the values of any format one by one.
"""

from __future__ import annotations

from numc.numerics.formats import FORMATS, Conversion, Fixed, Format, Posit, Record
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64, Carrier
from numc.passes.kernels.values.listed import emit_listed
from numc.passes.kernels.values.posits import emit_posit
from numc.passes.kernels.values.records import Noise, emit_record, reaches
from numc.passes.kernels.values.widths import Numbers, constants


def emit_round(
    code: Code,
    x: Value,
    to: Conversion,
    carrier: Carrier = F32,
    noise: Noise = None,
    widths: Numbers | None = None,
) -> Value:
    """Append the rounding of `x` to the format of `to`; the result is in the same carrier as `x`.

    noise: the random bits of a stochastic rounding, an i32 that has as many bits as the conversion says. widths: the
    numbers of a format with open widths, for this carrier.
    """
    if to.format.parts > 1:
        return (_compound_f32 if carrier is F32 else _compound_f64)(code, x, to, noise)
    if to.open is not None:
        assert widths is not None
        return emit_record(code, x, to, carrier=carrier, noise=noise, n=widths)
    if carrier is F32 and to.format == FORMATS["fp32"]:
        return x
    if isinstance(to.format, Record | Fixed):
        return emit_record(code, x, to, carrier=carrier, noise=noise, n=constants(to.format, carrier))
    if isinstance(to.format, Posit):
        return emit_posit(code, x, to, fmt=to.format, carrier=carrier, noise=noise)
    return emit_listed(code, x, to, carrier, noise)


def emit_parts(code: Code, x: Value, fmt: Format) -> list[Value]:
    """Append the split of a value of a format into its parts; a non-finite value is that in every part."""
    if fmt.parts == 1:
        return [x]
    to = Conversion(fmt.part)
    parts = [emit_round(code, x, to)]
    rest = x
    for n in range(1, fmt.parts):
        rest = code.binary("subf", rest, parts[-1])
        parts.append(rest if n == fmt.parts - 1 else emit_round(code, rest, to))
    finite = _is_finite(code, parts[0])
    return [parts[0]] + [code.select(finite, part, parts[0]) for part in parts[1:]]


def _is_finite(code: Code, x: Value) -> Value:
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(0x7FFFFFFF))
    return code.compare("ult", magnitude, code.int(F32.infinity))


def _with_sign_of(code: Code, value: Value, x: Value, carrier: Carrier) -> Value:
    """`value` with the sign bit of `x` set: restores the -0 that a sum of parts loses."""
    i = carrier.i
    sign = code.binary("andi", code.cast("bitcast", x, i), code.int(carrier.sign, i))
    bits = code.binary("ori", code.cast("bitcast", value, i), sign)
    return code.cast("bitcast", bits, carrier.f)


def _compound_f32(code: Code, x: Value, to: Conversion, noise: Noise) -> Value:
    """x0 = F(x), x1 = F(x - x0), x2 = F(x - x0 - x1): the value x0 + x1 or x0 + x1 + x2; the last F is that of `to`."""
    parts, nearest, at_last = to.format.parts, Conversion(to.format.part), Conversion(to.format.part, to.rounding)
    first = total = emit_round(code, x, nearest)
    rest = code.binary("subf", x, first)
    for n in range(1, parts):
        last = n == parts - 1
        part = emit_round(code, rest, at_last if last else nearest, noise=noise)
        total = code.binary("addf", total, part)
        rest = rest if last else code.binary("subf", rest, part)
    return code.select(_is_finite(code, first), _with_sign_of(code, total, x, F32), first)


def _compound_f64(code: Code, x: Value, to: Conversion, noise: Noise) -> Value:
    """The compound rounding of an exact value (here: rounded to odd): no part goes below the ulp of the f32 carrier."""
    i, bias, fmt = "i64", F64.bias, to.format

    def exponent(value: Value) -> Value:
        field = code.binary("shrui", code.cast("bitcast", value, i), code.int(52, i))
        return code.binary("andi", field, code.int(0x7FF, i))

    floor = code.binary("maxsi", exponent(x), code.int(bias - 126, i))
    floor = code.binary("subi", floor, code.int(23, i))
    floor = code.binary("maxsi", floor, code.int(bias + fmt.part.unit_exponent, i))
    rest = total = first = x
    for n in range(fmt.parts):
        quantum = code.binary("maxsi", code.binary("subi", exponent(rest), code.int(fmt.precision - 1, i)), floor)
        field = code.binary("addi", quantum, code.int(52, i))
        magic_bits = code.binary("shli", field, code.int(52, i))
        magic = code.cast("bitcast", code.binary("ori", magic_bits, code.int(1 << 51, i)), "f64")
        part = code.binary("subf", code.binary("addf", rest, magic), magic)
        if n == fmt.parts - 1 and to.noise is not None:
            part = _noisy_part(code, rest, part, quantum=quantum, bits=to.noise.bits, noise=noise)
        if n == 0:
            first = _saturate_to_infinity(code, part, fmt.part.emax + 1)
        rest = code.binary("subf", rest, part)
        total = code.binary("addf", total, part) if n else part
    magnitude = code.binary("andi", code.cast("bitcast", first, i), code.int(F64.sign - 1, i))
    finite = code.compare("ult", magnitude, code.int(F64.infinity, i))
    return code.select(finite, _with_sign_of(code, total, x, F64), first)


def _noisy_part(code: Code, rest: Value, nearest: Value, quantum: Value, bits: int, noise: Noise) -> Value:
    """`rest` rounded stochastically to a multiple of 2^quantum (a biased exponent); `nearest` is the nearest one."""
    i, f = "i64", "f64"
    size = code.unary("math.absf", rest)
    near = code.unary("math.absf", nearest)
    unit = code.cast("bitcast", code.binary("shli", quantum, code.int(52, i)), f)
    down = code.select(code.compare("ogt", near, size), code.binary("subf", near, unit), near)
    quanta = code.binary("divf", code.binary("subf", size, down), unit)
    up = code.binary("addf", down, unit)
    return _with_sign_of(code, code.select(reaches(code, quanta, noise, bits, F64), up, down), rest, F64)


def _saturate_to_infinity(code: Code, x: Value, exponent: int) -> Value:
    """`x`, of which what has reached 2^exponent is an infinity; NaN and infinities stay."""
    bits = code.cast("bitcast", x, "i64")
    magnitude = code.binary("andi", bits, code.int(F64.sign - 1, "i64"))
    sign = code.binary("andi", bits, code.int(F64.sign, "i64"))
    overflowed = code.binary("ori", sign, code.int(F64.infinity, "i64"))
    infinite = code.cast("bitcast", overflowed, "f64")
    at_least = code.compare("uge", magnitude, code.int(F64.power(exponent), "i64"))
    is_number = code.compare("ule", magnitude, code.int(F64.infinity, "i64"))
    return code.select(code.binary("andi", at_least, is_number), infinite, x)
