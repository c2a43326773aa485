"""Roundings as straight-line code, exact for every input (arithmetic.md section 2).

The same sequences serve two carriers: binary32, where values live, and binary64, where the exact datapath holds a sum
rounded to odd (53 bits of round-to-odd are enough for any later single rounding: Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from numc.numerics.formats import Conversion, Format
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64, Carrier
from numc.passes.kernels.values.widths import Numbers, constants

# The bits that a stochastic rounding adds: an i32 of as many bits as the conversion says. None: nothing is drawn.
Noise = Value | None


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
        return _simple(code, x, to, carrier, noise, widths)
    if carrier is F32 and to.format.exponent_bits == 8 and to.format.significand_bits == 23 and to.format.subnormals:
        return x
    return _simple(code, x, to, carrier, noise, constants(to.format, carrier))


def _simple(code: Code, x: Value, to: Conversion, carrier: Carrier, noise: Noise, n: Numbers) -> Value:
    fmt, i = to.format, carrier.i
    bits = code.cast("bitcast", x, i)
    if n.full_range and fmt.subnormals:
        # Only bits are cut off, and no carry leaves an encoding that is not a NaN: the sign stays where it is.
        negative = code.compare("slt", bits, code.int(0, i))
        rounded = code.cast("bitcast", _round_normal(code, bits, negative, to, carrier, noise, n), carrier.f)
        return code.select(code.compare("uno", x, x), x, rounded)
    sign = code.binary("andi", bits, code.int(carrier.sign, i))
    magnitude = code.binary("andi", bits, code.int(carrier.sign - 1, i))
    negative = code.compare("ne", sign, code.int(0, i))
    rounded = _round_normal(code, magnitude, negative, to, carrier, noise, n)
    below = code.compare("ult", magnitude, n.lanes(code, n.least_normal))
    small = _round_subnormal(code, magnitude, negative, to, carrier, noise, n) if fmt.subnormals else code.int(0, i)
    rounded = code.select(below, small, rounded)
    if not n.full_range:
        rounded = _overflow(code, rounded, magnitude, negative, to, carrier, n)
    result = code.cast("bitcast", code.binary("ori", rounded, sign), carrier.f)
    is_nan = code.compare("ugt", magnitude, code.int(carrier.infinity, i))
    return code.select(is_nan, x, result)


def _round_normal(
    code: Code, magnitude: Value, negative: Value, to: Conversion, carrier: Carrier, noise: Noise, n: Numbers
) -> Value:
    i = carrier.i
    if to.open is None and to.format.significand_bits == carrier.significand_bits:
        return magnitude
    # Without explicit bits every significand is 1, an odd multiple of the quantum: ties go up, and odd keeps it.
    rounding = to.rounding
    if to.format.significand_bits == 0:
        rounding = {"rne": "rna", "odd": "rtz"}.get(rounding, rounding)
    kept = n.lanes(code, n.kept)
    if rounding == "odd":
        truncated = code.binary("andi", magnitude, kept)
        inexact = code.compare("ne", truncated, magnitude)
        return code.binary("ori", truncated, code.select(inexact, n.lanes(code, n.ulp), code.int(0, i)))
    if rounding == "rne":
        odd = code.binary("andi", code.binary("shrui", magnitude, n.lanes(code, n.shift)), n.lanes(code, n.lowest))
        addend = code.binary("addi", odd, n.lanes(code, n.below_half))
    elif rounding == "rna":
        addend = n.lanes(code, n.half)
    elif rounding == "rtz":
        addend = code.int(0, i)
    elif to.noise is not None:
        addend = _aligned(code, noise, to.noise.bits, n)
    else:
        away = n.lanes(code, n.cut), code.int(0, i)
        addend = code.select(negative, *(away if rounding == "rdn" else away[::-1]))
    return code.binary("andi", code.binary("addi", magnitude, addend), kept)


def _aligned(code: Code, noise: Noise, bits: int, n: Numbers) -> Value:
    """Noise of `bits` bits right below the kept bits; what does not fit could not make a difference."""
    assert noise is not None
    carrier = n.carrier
    wide = noise if carrier is F32 else code.cast("extui", noise, "i64")
    if isinstance(n.shift, int):
        name = "shrui" if bits > n.shift else "shli"
        return code.binary(name, wide, code.int(abs(bits - n.shift), carrier.i))
    top = carrier.significand_bits + 1
    high = code.binary("shli", wide, code.int(top - bits, carrier.i))
    return code.binary("shrui", high, code.binary("subi", code.int(top, carrier.i), n.lanes(code, n.shift)))


def _reaches(code: Code, rest: Value, noise: Noise, bits: int, carrier: Carrier) -> Value:
    """Whether `rest`, in quanta, cut to `bits` bits, and `noise` make a whole one."""
    assert noise is not None
    missing = code.binary("subi", code.int(1 << bits), noise)
    scale = carrier.constant(code, 2.0**-bits)
    threshold = code.binary("mulf", code.cast("uitofp", missing, carrier.f), scale)
    return code.compare("oge", rest, threshold)


def _round_subnormal(
    code: Code, magnitude: Value, negative: Value, to: Conversion, carrier: Carrier, noise: Noise, n: Numbers
) -> Value:
    """Round below 2^emin, where the quantum is fixed: adding 2^52 (2^23) quanta makes the hardware round to it."""
    f = carrier.f
    x = code.cast("bitcast", magnitude, f)
    magic, quantum = n.lanes(code, n.magic), n.lanes(code, n.quantum)
    nearest = code.binary("subf", code.binary("addf", x, magic), magic)
    if to.rounding == "rne":
        return code.cast("bitcast", nearest, carrier.i)
    above = code.compare("ogt", nearest, x)
    down = code.select(above, code.binary("subf", nearest, quantum), nearest)
    up = code.select(code.compare("olt", down, x), code.binary("addf", down, quantum), down)
    if to.rounding == "rtz":
        result = down
    elif to.rounding == "rna":
        rest = code.binary("subf", x, down)
        result = code.select(code.compare("oge", rest, n.lanes(code, n.half_quantum)), up, down)
    elif to.noise is not None:
        rest = code.binary("subf", x, down)
        for factor in n.to_quanta:
            rest = code.binary("mulf", rest, n.lanes(code, factor))
        result = code.select(_reaches(code, rest, noise, to.noise.bits, carrier), up, down)
    elif to.rounding == "odd":
        units = code.cast("bitcast", code.binary("addf", down, magic), carrier.i)
        parity = code.binary("andi", units, code.int(1, carrier.i))
        is_odd = code.compare("ne", parity, code.int(0, carrier.i))
        result = code.select(is_odd, down, up)
    else:
        result = code.select(negative, *((up, down) if to.rounding == "rdn" else (down, up)))
    return code.cast("bitcast", result, carrier.i)


def _overflow(
    code: Code, rounded: Value, magnitude: Value, negative: Value, to: Conversion, carrier: Carrier, n: Numbers
) -> Value:
    i = carrier.i
    largest = n.lanes(code, n.largest)
    infinity = code.int(carrier.infinity, i)
    if to.format.finite:
        beyond = code.int(carrier.nan, i) if to.overflow == "nan" else largest
    elif to.rounding in ("rne", "rna") or to.noise is not None:
        beyond = infinity
    else:
        if to.rounding in ("rtz", "odd"):
            beyond = largest
        else:
            sides = (infinity, largest) if to.rounding == "rdn" else (largest, infinity)
            beyond = code.select(negative, *sides)
        is_infinite = code.compare("eq", magnitude, infinity)
        beyond = code.select(is_infinite, infinity, beyond)
    return code.select(code.compare("ugt", rounded, largest), beyond, rounded)


_BF16 = Conversion(Format("bf16", 8, 7))


def emit_parts(code: Code, x: Value, count: int) -> list[Value]:
    """Append the split of a bf16xN value into its `count` bf16 parts; a non-finite value is that in every part."""
    if count == 1:
        return [x]
    parts = [emit_round(code, x, _BF16)]
    rest = x
    for n in range(1, count):
        rest = code.binary("subf", rest, parts[-1])
        parts.append(rest if n == count - 1 else emit_round(code, rest, _BF16))
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


def _last_bf16(to: Conversion) -> Conversion:
    """How the last part of a compound number is rounded: as the conversion says."""
    return Conversion(_BF16.format, to.rounding)


def _compound_f32(code: Code, x: Value, to: Conversion, noise: Noise) -> Value:
    """x0 = BF(x), x1 = BF(x - x0), x2 = BF(x - x0 - x1): the value x0 + x1 or x0 + x1 + x2."""
    parts = to.format.parts
    first = total = emit_round(code, x, _BF16)
    rest = code.binary("subf", x, first)
    for n in range(1, parts):
        last = n == parts - 1
        part = emit_round(code, rest, _last_bf16(to) if last else _BF16, noise=noise)
        total = code.binary("addf", total, part)
        rest = rest if last else code.binary("subf", rest, part)
    return code.select(_is_finite(code, first), _with_sign_of(code, total, x, F32), first)


def _compound_f64(code: Code, x: Value, to: Conversion, noise: Noise) -> Value:
    """The compound rounding of an exact value (here: rounded to odd): no part goes below the ulp of the f32 carrier."""
    i, bias = "i64", F64.bias

    def exponent(value: Value) -> Value:
        field = code.binary("shrui", code.cast("bitcast", value, i), code.int(52, i))
        return code.binary("andi", field, code.int(0x7FF, i))

    floor = code.binary("maxsi", exponent(x), code.int(bias - 126, i))
    floor = code.binary("subi", floor, code.int(23, i))
    floor = code.binary("maxsi", floor, code.int(bias - 133, i))
    rest = total = first = x
    for n in range(to.format.parts):
        quantum = code.binary("maxsi", code.binary("subi", exponent(rest), code.int(7, i)), floor)
        field = code.binary("addi", quantum, code.int(52, i))
        magic_bits = code.binary("shli", field, code.int(52, i))
        magic = code.cast("bitcast", code.binary("ori", magic_bits, code.int(1 << 51, i)), "f64")
        part = code.binary("subf", code.binary("addf", rest, magic), magic)
        if n == to.format.parts - 1 and to.noise is not None:
            part = _noisy_part(code, rest, part, quantum, to.noise.bits, noise)
        if n == 0:
            first = _saturate_to_infinity(code, part)
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
    return _with_sign_of(code, code.select(_reaches(code, quanta, noise, bits, F64), up, down), rest, F64)


def _saturate_to_infinity(code: Code, x: Value) -> Value:
    """A bf16 that reached 2^128 is an infinity; NaN and infinities stay."""
    bits = code.cast("bitcast", x, "i64")
    magnitude = code.binary("andi", bits, code.int(F64.sign - 1, "i64"))
    sign = code.binary("andi", bits, code.int(F64.sign, "i64"))
    overflowed = code.binary("ori", sign, code.int(F64.infinity, "i64"))
    infinite = code.cast("bitcast", overflowed, "f64")
    at_least = code.compare("uge", magnitude, code.int(F64.power(128), "i64"))
    is_number = code.compare("ule", magnitude, code.int(F64.infinity, "i64"))
    return code.select(code.binary("andi", at_least, is_number), infinite, x)
