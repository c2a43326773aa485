"""Roundings to binary records and to fixed point as straight-line code, exact for every input.

The same sequences serve two carriers: binary32, where values live, and binary64, where the exact datapath holds a sum
rounded to odd (53 bits of round-to-odd are enough for any later single rounding: Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from numc.numerics.formats import Conversion, Record
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, Carrier
from numc.passes.kernels.values.widths import Numbers

# The bits that a stochastic rounding adds: an i32 of as many bits as the conversion says. None: nothing is drawn.
Noise = Value | None


def emit_record(code: Code, x: Value, to: Conversion, carrier: Carrier, noise: Noise, n: Numbers) -> Value:
    """Append the rounding of a number of the carrier to a record, or to fixed point, of these numbers."""
    fmt, i = to.format, carrier.i
    bits = code.cast("bitcast", x, i)
    if n.full_range and fmt.is_gradual:
        # Only bits are cut off, and no carry leaves an encoding that is not a NaN: the sign stays where it is.
        negative = code.compare("slt", bits, code.int(0, i))
        rounded = code.cast(
            "bitcast", _round_normal(code, bits, negative, to=to, carrier=carrier, noise=noise, n=n), carrier.f
        )
        return code.select(code.compare("uno", x, x), x, rounded)
    sign = code.binary("andi", bits, code.int(carrier.sign, i))
    magnitude = code.binary("andi", bits, code.int(carrier.sign - 1, i))
    negative = code.compare("ne", sign, code.int(0, i))
    rounded = _round_normal(code, magnitude, negative, to=to, carrier=carrier, noise=noise, n=n)
    below = code.compare("ult", magnitude, n.lanes(code, n.least_normal))
    flushes = isinstance(fmt, Record) and not fmt.subnormals and fmt.zero
    small = (
        code.int(0, i)
        if flushes
        else _round_subnormal(code, magnitude, negative, to=to, carrier=carrier, noise=noise, n=n)
    )
    rounded = code.select(below, small, rounded)
    if not fmt.has_zero:
        rounded = code.binary("maxui", rounded, code.int(carrier.encoding(float(fmt.min_subnormal)), i))
    if not n.full_range:
        rounded = _overflow(code, rounded, magnitude, negative=negative, to=to, carrier=carrier, n=n)
    if not fmt.signed:
        rounded = _below(code, rounded, magnitude, negative=negative, to=to, carrier=carrier)
    elif fmt.has_minus_zero:
        rounded = code.binary("ori", rounded, sign)
    else:
        is_zero = code.compare("eq", rounded, code.int(0, i))
        rounded = code.select(is_zero, rounded, code.binary("ori", rounded, sign))
    is_nan = code.compare("ugt", magnitude, code.int(carrier.infinity, i))
    return code.select(is_nan, x, code.cast("bitcast", rounded, carrier.f))


def _round_normal(
    code: Code, magnitude: Value, negative: Value, to: Conversion, carrier: Carrier, noise: Noise, n: Numbers
) -> Value:
    i = carrier.i
    if to.open is None and n.shift == 0:
        return magnitude
    # Without explicit bits every significand is 1, an odd multiple of the quantum: ties go up, and odd keeps it, unless
    # the whole code is to be even, or odd, whose last bit is that of the exponent.
    rounding, flip = to.rounding, 0
    if isinstance(to.format, Record) and to.format.even_codes and to.format.precision == 1:
        flip = (carrier.bias - to.format.bias) & 1
    elif to.format.precision == 1:
        rounding = {"rne": "rna", "odd": "rtz"}.get(rounding, rounding)
    kept = n.lanes(code, n.kept)
    ulp, zero = n.lanes(code, n.ulp), code.int(0, i)
    if rounding == "odd":
        truncated = code.binary("andi", magnitude, kept)
        inexact = code.compare("ne", truncated, magnitude)
        if flip:  # an odd bit is an even code, which the next one follows
            return code.binary("addi", truncated, code.select(inexact, code.binary("andi", truncated, ulp), zero))
        return code.binary("ori", truncated, code.select(inexact, ulp, zero))
    if rounding == "rne":
        odd = code.binary("andi", code.binary("shrui", magnitude, n.lanes(code, n.shift)), n.lanes(code, n.lowest))
        if flip:
            odd = code.binary("xori", odd, code.int(1, i))
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


def reaches(code: Code, rest: Value, noise: Noise, bits: int, carrier: Carrier) -> Value:
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
        result = code.select(reaches(code, rest, noise, to.noise.bits, carrier), up, down)
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
    largest, least = n.lanes(code, n.largest), -to.format.least
    if to.format.signed and least != to.format.max_finite and to.format.parts == 1:
        largest = code.select(negative, code.int(carrier.encoding(float(least)), i), largest)
    infinity = code.int(carrier.infinity, i)
    if to.saturates or to.overflow == "nan":
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


def _below(code: Code, rounded: Value, magnitude: Value, negative: Value, to: Conversion, carrier: Carrier) -> Value:
    """Replace numbers below those of a format without a sign by the least one, or NaN."""
    fmt, i = to.format, carrier.i
    zero = code.int(0, i)
    least = code.int(carrier.encoding(float(fmt.least)) if to.saturates else carrier.nan, i)
    if fmt.has_zero:
        is_below = code.binary("andi", negative, code.compare("ne", rounded, zero))
    else:
        is_below = code.binary("ori", negative, code.compare("eq", magnitude, zero))
    return code.select(is_below, least, rounded)
