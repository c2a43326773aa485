"""Roundings to a format with few values, whatever its kind: its definition, made a list of steps.

A rounding without random bits is a step function of the number that is rounded. A stochastic rounding looks for the
values around the number, and compares it with a point between them.
"""

from __future__ import annotations

import math

from numc.numerics.formats import Conversion, Format
from numc.numerics.formats.steps import steps
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import Carrier

MOST_BITS = 8


def emit_listed(code: Code, x: Value, to: Conversion, carrier: Carrier, noise: Value | None) -> Value:
    """Append the rounding of a number of the carrier."""
    assert to.format.bits <= MOST_BITS, f"{to.format.name}: a kind of more than {MOST_BITS} bits has code of its own"
    if to.noise is not None:
        assert noise is not None
        found = _drawn(code, x, to.format, carrier, noise, to.noise.bits)
    else:
        key = _key(code, x, carrier)
        (_, first), *others = steps(to, wide=carrier.f == "f64")
        found = carrier.constant(code, first)
        for step, value in others:
            at_least = code.compare("sge", key, code.int(step & 2 * carrier.sign - 1, carrier.i))
            found = code.select(at_least, carrier.constant(code, value), found)
    return code.select(code.compare("uno", x, x), x, found)


def _key(code: Code, x: Value, carrier: Carrier) -> Value:
    """An integer in the order of the numbers: the bits, of negative ones with all but the sign inverted."""
    i = carrier.i
    bits = code.cast("bitcast", x, i)
    signs = code.binary("shrsi", bits, code.int(int(i[1:]) - 1, i))
    return code.binary("xori", bits, code.binary("andi", signs, code.int(carrier.sign - 1, i)))


def _drawn(code: Code, x: Value, fmt: Format, carrier: Carrier, noise: Value, bits: int) -> Value:
    """x becomes the value above it if it reaches ``below + u' * (above - below)``, for one of 2^bits numbers u'."""
    values = sorted({value for value in map(fmt.decode, range(1 << fmt.bits)) if math.isfinite(value)})
    wide = x if carrier.f == "f64" else code.cast("extf", x, "f64")
    below = above = code.f64(values[0])
    for value, following in zip(values, [*values[1:], values[-1]], strict=True):
        reached = code.compare("oge", wide, code.f64(value))
        below = code.select(reached, code.f64(value), below)
        above = code.select(reached, code.f64(following), above)
    scale = code.f64(2.0**bits)
    missing = code.cast("uitofp", code.binary("subi", code.int(1 << bits), noise), "f64")
    part = code.binary("mulf", missing, code.binary("subf", above, below))
    scaled = code.binary("mulf", wide, scale)
    up = code.compare("oge", scaled, code.binary("addf", code.binary("mulf", below, scale), part))
    down = code.compare("ole", scaled, code.binary("subf", code.binary("mulf", above, scale), part))
    is_negative = code.compare("olt", wide, code.f64(0.0))
    found = code.select(is_negative, code.select(down, below, above), code.select(up, above, below))
    # A number beyond all values has both neighbours on one side of it.
    found = code.select(code.compare("olt", wide, code.f64(values[0])), code.f64(values[0]), found)
    return found if carrier.f == "f64" else code.cast("truncf", found, "f32")
