"""The datapath ``fused``: a block of products and the accumulator, aligned, cut, added and rounded once.

Products are exact in binary64. Scaled by ``2^(bits - E)``, with E the largest exponent, terms are cut by a truncation
to integers, whose sums binary64 holds: below 2^(bits + 2) each, 2^53 in all. What is scaled back has all exponents that
it needs, so that the only rounding is the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from numc.numerics.formats import Conversion
from numc.numerics.operators import FP32, Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks import Products, in_blocks
from numc.passes.kernels.datapaths.datapath import Accumulators, Drawn
from numc.passes.kernels.setting import Parts
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64
from numc.passes.kernels.values.rounding import emit_round

_NOWHERE = -4096  # the exponent of a zero, below all others


def block(code: Code, fma: Fma, products: Products, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append the sums of a block of products and of accumulators."""
    (to_a, to_b), path = fma.singles, fma.datapath
    least = code.int(path["least"])
    tops = [code.binary("maxsi", _exponent(code, c, fma.acc), least) for c in sums]

    def higher(n: int, top: Value, a: Parts, b: Parts) -> Value:
        exponent = code.binary("addi", _exponent(code, a[0], to_a), _exponent(code, b[0], to_b))
        return code.binary("maxsi", top, exponent)

    tops = products.fold(tops, higher)
    scales = [_power(code, code.binary("subi", code.int(path["bits"]), top)) for top in tops]

    def cut(n: int, x: Value) -> Value:
        return code.unary("math.trunc", code.binary("mulf", x, scales[n]))

    def more(n: int, total: Value, a: Parts, b: Parts) -> Value:
        x, y = (code.cast("extf", parts[0], "f64") for parts in (a, b))
        return code.binary("addf", total, cut(n, code.binary("mulf", x, y)))

    # From +0 on: a sum that is zero has no sign.
    starts = [code.binary("addf", code.f64(0.0), cut(n, code.cast("extf", c, "f64"))) for n, c in enumerate(sums)]
    totals = products.fold(starts, more)
    found = []
    for top, total, each in zip(tops, totals, drawn, strict=True):
        quantum = _power(code, code.binary("subi", top, code.int(path["bits"])))
        found.append(_rounded(code, code.binary("mulf", total, quantum), fma.acc, each))
    return found


def _exponent(code: Code, x: Value, to: Conversion) -> Value:
    """The exponents of numbers in their format, as i32: that of all subnormals is the least one."""
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(F32.sign - 1))
    exponent = code.binary("subi", code.binary("shrui", magnitude, code.int(23)), code.int(F32.bias))
    exponent = code.binary("maxsi", exponent, code.int(max(to.format.emin, -F32.bias)))
    return code.select(code.compare("eq", magnitude, code.int(0)), code.int(_NOWHERE), exponent)


def _power(code: Code, exponent: Value) -> Value:
    """2 to the power of numbers (i32), which is a normal number of binary64."""
    wide = code.cast("extsi", code.binary("addi", exponent, code.int(F64.bias)), "i64")
    return code.cast("bitcast", code.binary("shli", wide, code.int(52, "i64")), "f64")


def _rounded(code: Code, x: Value, to: Conversion, drawn: Drawn) -> Value:
    """The binary64 number `x` in the format of the accumulator."""
    fmt = to.format
    if fmt.has_infinities and not to.saturates and to.rounding not in ("rne", "rna") and to.noise is None:
        # An overflow is an infinity, whatever the rounding.
        size = code.unary("math.absf", x)
        beyond = code.compare("oge", size, code.f64(2.0 ** (fmt.emax + 1)))
        infinite = code.binary("mulf", x, code.f64(float("inf")))
        x = code.select(beyond, infinite, x)
    if to != FP32:
        x = emit_round(code, x, to, F64, drawn.acc)
    return code.binary("addf", code.cast("truncf", x, "f32"), code.f32(0.0))


FUSED = in_blocks(block)
