"""The datapath ``fused``: a block of products and the accumulator, aligned, cut, added and rounded once.

Products are exact in binary64. Scaled by ``2^(bits - E)``, with E the largest exponent, terms are cut by a truncation
to integers, whose sums binary64 holds: below 2^(bits + 2) each, 2^53 in all. What is scaled back has all exponents that
it needs, so that the only rounding is the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from numc.numerics.formats import Conversion
from numc.numerics.operators import FP32, Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks import cut_integers
from numc.passes.kernels.datapaths.blocks.alignment import (
    cut,
    cut_scale,
    cut_sums,
    exact_product,
    exponent_of,
    largest_exponents,
    power_of_two,
)
from numc.passes.kernels.datapaths.blocks.products import Products, in_blocks
from numc.passes.kernels.datapaths.datapath import Accumulators, Drawn
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F64
from numc.passes.kernels.values.rounding import emit_round


def block(code: Code, fma: Fma, products: Products, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append the sums of a block of products and of accumulators."""
    tops = largest_exponents(code, fma, products, exponents_at_least(code, fma, sums))
    scales = [cut_scale(code, top, fma.datapath["bits"]) for top in tops]
    totals = cut_sums(code, products, scales, cut_accumulators(code, sums, scales), partial(exact_product, code))
    return rounded_totals(code, fma, tops, totals, drawn)


def exponents_at_least(code: Code, fma: Fma, sums: Accumulators) -> list[Value]:
    """Append the exponents of accumulators (i32), or the least one of the datapath."""
    least = code.int(fma.datapath["least"])
    return [code.binary("maxsi", exponent_of(code, c, fma.acc), least) for c in sums]


def cut_accumulators(code: Code, sums: Accumulators, scales: Sequence[Value]) -> list[Value]:
    """Append accumulators that are cut to integers, in binary64; from +0 on, as a sum that is zero has no sign."""
    return [
        code.binary("addf", code.f64(0.0), cut(code, code.cast("extf", c, "f64"), scale))
        for c, scale in zip(sums, scales, strict=True)
    ]


def rounded_totals(
    code: Code, fma: Fma, tops: Sequence[Value], totals: Sequence[Value], drawn: Sequence[Drawn]
) -> Accumulators:
    """Append totals, in units of the last bit that is kept below `tops`, in the format of the accumulator."""
    results, bits = [], fma.datapath["bits"]
    for top, total, each in zip(tops, totals, drawn, strict=True):
        quantum = power_of_two(code, code.binary("subi", top, code.int(bits)))
        results.append(_rounded(code, code.binary("mulf", total, quantum), fma.acc, each))
    return results


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


FUSED = replace(
    in_blocks(block, cut_integers.block),
    wide=True,
    limits=cut_integers.limits,
    around=cut_integers.around,
    cheap_block=partial(cut_integers.block, in_mode=False),
)
