"""Roundings to posits as straight-line code, exact for every input.

The code of a posit is a binary logarithm that is cut off: its regime and exponent are the exponent of the number, its
fraction that of the significand. So are the bits of the carrier, less its bias. They are rounded at a place that the
regime decides, and carries go where they have to: from the fraction into the exponent, and from that into the regime.
"""

from __future__ import annotations

from numc.numerics.formats import Conversion, Posit
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import Carrier


def emit_posit(code: Code, x: Value, to: Conversion, fmt: Posit, carrier: Carrier, noise: Value | None) -> Value:
    """Append the rounding of a number of the carrier."""
    i = carrier.i

    def number(n: int) -> Value:
        return code.int(n & (2 * carrier.sign - 1), i)

    def op(name: str, a: Value, b: Value | int) -> Value:
        return code.binary(name, a, number(b) if isinstance(b, int) else b)

    bits = code.cast("bitcast", x, i)
    sign, size = op("andi", bits, carrier.sign), op("andi", bits, carrier.sign - 1)
    # No number becomes zero or NaR, so that none is beyond the smallest and the largest one.
    inside = op("minui", op("maxui", size, carrier.power(-fmt.scale)), carrier.power(fmt.scale))
    logarithm = op("subi", inside, carrier.bias << carrier.significand_bits)
    most = carrier.significand_bits + fmt.exponent_bits  # bits below the regime
    regime = op("shrsi", logarithm, most)
    length = op("maxsi", op("addi", regime, 2), op("subi", number(1), regime))
    shift = op("minsi", op("addi", length, most - (fmt.width - 1)), most)
    unit = op("shli", number(1), shift)
    cut = op("subi", unit, 1)
    negative = code.compare("ne", sign, number(0))
    # The last bit of a code that ends with its regime is that of the regime: 0 behind ones, 1 behind zeros.
    last = op("andi", op("shrsi", logarithm, shift), 1)
    last = code.select(code.compare("eq", shift, number(most)), op("shrui", regime, int(i[1:]) - 1), last)
    half = op("shrui", unit, 1)
    if to.rounding == "rne":
        addend = op("addi", op("subi", half, 1), last)
    elif to.rounding == "rna":
        addend = half
    elif to.rounding == "odd":
        addend = code.select(code.compare("eq", last, number(0)), cut, number(0))
    elif to.rounding == "rtz":
        addend = number(0)
    elif to.noise is not None:
        assert noise is not None
        wide = noise if i == "i32" else code.cast("extui", noise, i)
        top = max(most, to.noise.bits)
        addend = op("shrui", op("shli", wide, top - to.noise.bits), op("subi", number(top), shift))
    else:
        addend = code.select(negative, *((cut, number(0)) if to.rounding == "rdn" else (number(0), cut)))
    rounded = op("andi", op("addi", logarithm, addend), op("xori", cut, -1))
    encoding = op("addi", rounded, carrier.bias << carrier.significand_bits)
    encoding = code.select(code.compare("eq", size, number(0)), number(0), op("ori", encoding, sign))
    is_nar = code.compare("ugt" if to.overflow == "sat" else "uge", size, number(carrier.infinity))
    return code.cast("bitcast", code.select(is_nar, number(carrier.nan), encoding), carrier.f)
