"""The datapath ``fused`` in binary32 and 32-bit integers, which is exact under a guard.

Where products are neither too large nor tiny, binary32 has them exactly: their operands have 24 significand bits
together. The power of two of a product is the product of the operands' powers, and the largest is a maximum of
integers. Scaled by ``2^bits`` over that, products and accumulator are cut by their conversion to integers, of which
sums are exact. The one rounding is that of an integer to binary32: in the rounding mode of the processor, or to odd, if
the accumulator has fewer bits and is rounded to nearest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce

from numc.numerics.formats import Conversion, Record
from numc.numerics.operators import FP32, Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.blocks.products import Products
from numc.passes.kernels.datapaths.datapath import Accumulators, Guard, Micro
from numc.passes.kernels.datapaths.steps.chain import emit_to_odd
from numc.passes.kernels.environment import toward_zero
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32
from numc.passes.kernels.values.rounding import emit_round

_MOST = 2**31 - 1
_LOW = 8  # the bits of integers that are added apart where sums have more than 32
_EMIN = -126


def limits(s: Setting) -> Guard | None:
    """When it is exact; None for operators that it does not serve."""
    return cut_guard(s.fma) if serves(s.fma) else None


def around(f: Function, s: Setting) -> AbstractContextManager[None]:
    """The rounding mode of the processor."""
    return toward_zero(f) if s.fma.acc.rounding == "rtz" and serves(s.fma) else nullcontext()


def cuts_exactly(fma: Fma) -> bool:
    """Whether binary32 has the products of an operator, and 32 bits one that is cut."""
    formats = [to.format for to in fma.factors]
    records = all(isinstance(fmt, Record) and fmt.emin >= _EMIN for fmt in formats)
    return records and sum(fmt.precision for fmt in formats) <= F32.significand_bits + 1 and _term(fma) <= _MOST


def cut_guard(fma: Fma) -> Guard:
    """When products are neither too large nor tiny, and no sum overflows: after an infinity integers mean nothing."""
    normal = any(to.format.emin == _EMIN for to in fma.factors)
    return Guard(largest=min(126, fma.acc.format.emax), product=least_product(fma), minus_zero=True, normal=normal)


def serves(fma: Fma) -> bool:
    """Whether an operator rounds as it does, and its blocks fit."""
    acc, path = fma.acc.format, fma.datapath
    bits, least = path["bits"], path["least"]
    if not isinstance(acc, Record) or acc.emin < _EMIN or fma.draws or not cuts_exactly(fma):
        return False
    rounds = fma.acc.rounding == "rne" or (fma.acc.rounding == "rtz" and acc.emin == _EMIN)
    # An accumulator to which only zeros are added stays as it is.
    stays = acc.significand_bits <= bits and least - bits <= acc.emin - acc.significand_bits
    return rounds and stays and path["l"] * _term(fma) + 2 ** (bits + 1) < 2**32 and least < 100


def _term(fma: Fma) -> int:
    """A bound of products, in units of the last bit that is kept."""
    a, b = (2 - 2.0 ** (1 - to.format.precision) for to in fma.factors)
    return math.ceil(math.ldexp(a * b, fma.datapath["bits"]))


def least_product(fma: Fma) -> int:
    """The exponent that the smallest products have to reach, so that units of the last bit are normal numbers."""
    return fma.datapath["bits"] - 125


def block(
    m: Micro, products: Products, sums: Accumulators, powers: Sequence[Value] | None = None, *, in_mode: bool = True
) -> Accumulators:
    """Append the sums of a block of products and of accumulators. powers: of two, which multiply the products.

    in_mode: whether the processor rounds towards zero where the accumulator does (`around`).
    """
    code, fma = m.code, m.setting.fma
    bits, least, zero = fma.datapath["bits"], fma.datapath["least"], code.int(0)
    highest = highest_powers(m, products, len(sums))
    if powers is not None:
        floats = [code.cast("bitcast", x, "f32") for x in highest]
        highest = [_bits(code, code.binary("mulf", x, power)) for x, power in zip(floats, powers, strict=True)]
    tops = [code.binary("maxsi", x, _bits(code, _power(code, c, fma.acc))) for x, c in zip(highest, sums, strict=True)]
    if least > least_product(fma):
        tops = [code.binary("maxsi", top, code.int(F32.power(least))) for top in tops]
    scales = scales_of(m, tops)
    starts = [code.cast("fptosi", code.binary("mulf", c, scale), "i32") for c, scale in zip(sums, scales, strict=True)]
    if powers is not None:
        scales = [code.binary("mulf", scale, power) for scale, power in zip(scales, powers, strict=True)]
    if fma.datapath["l"] * _term(fma) + 2 ** (bits + 1) <= _MOST:
        parts = [cut_sums(m, products, scales, starts)]
    else:
        runs = products.in_runs(_MOST // _term(fma))
        parts = [starts, *(cut_sums(m, run, scales, [zero] * len(sums)) for run in runs)]
    results = []
    for n, c in enumerate(sums):
        total = _total(code, [part[n] for part in parts], fma.acc, in_mode)
        quantum = code.binary("mulf", code.cast("bitcast", tops[n], "f32"), code.f32(2.0**-bits))
        result = code.binary("mulf", total, quantum)
        if fma.acc.rounding == "rne" and fma.acc != FP32:
            result = code.binary("addf", emit_round(code, result, fma.acc), code.f32(0.0))
        # Without a product that is not zero: the accumulator, and +0 for -0.
        alone = code.compare("eq", highest[n], zero)
        results.append(code.select(alone, code.binary("addf", c, code.f32(0.0)), result))
    return results


def highest_powers(m: Micro, products: Products, count: int) -> list[Value]:
    """Append the largest power of two of each accumulator's products, as the bits of a number; 0 if all are zeros."""
    code, (to_a, to_b) = m.code, m.setting.fma.factors

    def higher(n: int, top: Value, a: Parts, b: Parts) -> Value:
        power = code.binary("mulf", _power(code, a[0], to_a), _power(code, b[0], to_b))
        return code.binary("maxsi", top, _bits(code, power))

    return products.fold([code.int(0)] * count, higher)


def scales_of(m: Micro, tops: list[Value]) -> list[Value]:
    """Append what takes the last bit that is kept below a power of two to 1."""
    code, exponent_sum = m.code, (2 * F32.bias + m.setting.fma.datapath["bits"]) << F32.significand_bits
    return [code.cast("bitcast", code.binary("subi", code.int(exponent_sum), top), "f32") for top in tops]


def cut_sums(m: Micro, products: Products, scales: list[Value], starts: list[Value]) -> list[Value]:
    """Append the sums of products that are cut to integers, from `starts`."""
    code = m.code

    def more(n: int, total: Value, a: Parts, b: Parts) -> Value:
        product = code.binary("mulf", code.binary("mulf", a[0], b[0]), scales[n])
        return code.binary("addi", total, code.cast("fptosi", product, "i32"))

    return products.fold(starts, more)


def _power(code: Code, x: Value, to: Conversion) -> Value:
    """The powers of two in numbers of a format: 0 of a zero, and of a subnormal number of binary32."""
    power = code.binary("andi", _bits(code, x), code.int(F32.infinity))
    if to.format.emin > _EMIN:
        power = code.binary("maxsi", power, code.int(F32.power(to.format.emin)))
        power = code.select(code.compare("une", x, code.f32(0.0)), power, code.int(0))
    return code.cast("bitcast", power, "f32")


def _bits(code: Code, x: Value) -> Value:
    return code.cast("bitcast", x, "i32")


def _toward_zero(code: Code, total: Value, error: Value) -> Value:
    """A sum rounded to nearest, and its error, as the sum rounded towards zero: one encoding less if it is beyond."""
    bits, zero = _bits(code, total), code.int(0)
    apart = code.compare("slt", code.binary("xori", bits, _bits(code, error)), zero)
    beyond = code.binary("andi", apart, code.compare("une", error, code.f32(0.0)))
    return code.cast("bitcast", code.select(beyond, code.binary("subi", bits, code.int(1)), bits), "f32")


def _total(code: Code, parts: list[Value], acc: Conversion, in_mode: bool) -> Value:
    """The sum of integers in binary32, rounded as the accumulator is, or to odd before it is rounded to fewer bits."""
    odd = acc.rounding == "rne" and acc != FP32
    cuts = acc.rounding == "rtz" and not in_mode
    if len(parts) == 1 and not odd and not cuts:
        total = code.cast("sitofp", parts[0], "f32")
    else:
        highs = [code.binary("shrsi", part, code.int(_LOW)) for part in parts]
        lows = [code.binary("andi", part, code.int((1 << _LOW) - 1)) for part in parts]
        high, low = (
            code.cast("sitofp", reduce(lambda x, y: code.binary("addi", x, y), each), "f32") for each in (highs, lows)
        )
        high = code.binary("mulf", high, code.f32(1 << _LOW))
        total = code.binary("addf", high, low)
        if odd:
            total = emit_to_odd(code, total, code.binary("subf", low, code.binary("subf", total, high)))
        if cuts:
            total = _toward_zero(code, total, code.binary("subf", low, code.binary("subf", total, high)))
    if acc.rounding == "rtz" and acc.format.precision <= F32.significand_bits:
        dropped = F32.significand_bits + 1 - acc.format.precision
        total = code.cast("bitcast", code.binary("andi", _bits(code, total), code.int(-(1 << dropped))), "f32")
    return total
