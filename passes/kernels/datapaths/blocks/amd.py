"""The datapaths ``dot``, ``pairwise`` and ``staged``: how AMD's matrix units add a block of products."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from numc.numerics.formats import Conversion, Record
from numc.numerics.operators import FP32, Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.blocks import staged_integers
from numc.passes.kernels.datapaths.blocks.alignment import (
    cut_scale,
    cut_sums,
    exact_product,
    exponent_of,
    largest_exponents,
    power_of_two,
)
from numc.passes.kernels.datapaths.blocks.products import Products, in_blocks
from numc.passes.kernels.datapaths.datapath import NOTHING, Accumulators, Drawn, Guard, Micro
from numc.passes.kernels.datapaths.steps.chain import emit_add_to_odd, emit_to_odd, emit_two_sum
from numc.passes.kernels.environment import subnormals_flushed
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F64
from numc.passes.kernels.values.rounding import emit_round

_BELOW_ALL = -400  # the exponent of products that are zeros: no other is below -298
_ABOVE_ALL = 200  # an exponent that no finite sum has


def dot(code: Code, fma: Fma, products: Products, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append the exact sums of a block of products and of accumulators, each rounded once."""
    results = []
    every = products.all(partial(exact_product, code))
    add = _narrow_sum_to_odd if _is_narrow(fma) else _sum_to_odd
    for terms, c, each in zip(every, sums, drawn, strict=True):
        total = code.binary("addf", add(code, [*terms, code.cast("extf", c, "f64")]), code.f64(0.0))
        results.append(_rounded(code, total, fma, each))
    return results


def exact_dot(m: Micro, products: Products, sums: Accumulators) -> Accumulators:
    """Append these sums where binary64 has those of the products."""
    code, fma = m.code, m.setting.fma

    def more(n: int, total: Value, a: Parts, b: Parts) -> Value:
        x, y = (code.cast("extf", parts[0], "f64") for parts in (a, b))
        return code.fma(x, y, total)

    # From +0 on: a sum that is zero has no sign.
    results = []
    for total, c in zip(products.fold([code.f64(0.0)] * len(sums), more), sums, strict=True):
        both = emit_add_to_odd(code, total, code.cast("extf", c, "f64"))
        results.append(_rounded(code, both, fma, NOTHING))
    return results


def dot_limits(s: Setting) -> Guard | None:
    """When binary64 has all sums of products: their last bit is the product of the operands' last bits."""
    (a, b), length = (to.format for to in s.fma.singles), s.fma.datapath["l"]
    spread = 53 - a.precision - b.precision - (length - 1).bit_length()
    if s.fma.draws or spread < 0 or not (isinstance(a, Record) and isinstance(b, Record)):
        return None
    return Guard(largest=128, product=-298, minus_zero=True, spread=spread)


def _is_narrow(fma: Fma) -> bool:
    """Whether two binary64 numbers have every sum of products: of float16, but not of bfloat16 numbers."""
    formats = [to.format for to in fma.singles]
    if not all(isinstance(fmt, Record) for fmt in formats):
        return False
    largest, last = (sum(each) for each in zip(*((f.emax + 1, f.emin - f.precision + 1) for f in formats), strict=True))
    return int(largest - last) + 2 * fma.datapath["l"].bit_length() <= 2 * F64.significand_bits


def _narrow_sum_to_odd(code: Code, terms: Sequence[Value]) -> Value:
    """The sum of products and, as the last one, of an accumulator, rounded to odd, where `_is_narrow`.

    TwoSum of one product after the other; the sum of the errors has no error. Then the accumulator meets the sum, and
    what both additions leave decides the last bit. An infinity or a NaN is in the sums, whose errors mean nothing then.
    """
    *products, c = terms
    total, error = products[0], code.f64(0.0)
    for term in products[1:]:
        total, rest = emit_two_sum(code, total, term)
        error = code.binary("addf", error, rest)
    whole, rest = emit_two_sum(code, c, total)
    odd = emit_add_to_odd(code, whole, emit_add_to_odd(code, rest, error))
    finite = code.compare("olt", code.unary("math.absf", whole), code.f64(float("inf")))
    return code.select(finite, odd, whole)


def _sum_to_odd(code: Code, terms: Sequence[Value]) -> Value:
    """The sum of binary64 numbers, rounded to odd.

    An expansion grows by a term at a time (Shewchuk 1997): numbers without common bits, of ascending size, of which
    any may be zero. Two passes of TwoSum over it leave its sum, to less than an ulp, in the last one; then the largest
    other one that is not zero has the sign of the rest. Infinities and NaN, whose errors are NaN, are added apart.
    """
    expansion: list[Value] = []
    plain = terms[0]
    for n, term in enumerate(terms):
        plain = code.binary("addf", plain, term) if n else plain
        for index, each in enumerate(expansion):
            term, expansion[index] = emit_two_sum(code, term, each)
        expansion.append(term)
    for _ in range(2):
        for n in range(len(expansion) - 1):
            expansion[n + 1], expansion[n] = emit_two_sum(code, expansion[n + 1], expansion[n])
    *errors, total = expansion
    error = errors[0]
    for each in errors[1:]:
        error = code.select(code.compare("une", each, code.f64(0.0)), each, error)
    finite = code.compare("olt", code.unary("math.absf", plain), code.f64(float("inf")))
    return code.select(finite, emit_to_odd(code, total, error), plain)


def _rounded(code: Code, x: Value, fma: Fma, drawn: Drawn) -> Value:
    """Numbers of binary64 in the accumulator's format; to binary32 the last conversion rounds."""
    if fma.acc != FP32:
        x = emit_round(code, x, fma.acc, F64, drawn.acc)
    return code.cast("truncf", x, "f32")


def tree(code: Code, fma: Fma, products: Products, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append the sums of products in binary32, added in pairs, then to the accumulators."""
    flushes, by_mode = bool(fma.datapath["flush"]), products.m is not None and _in_mode(fma)

    def flushed(x: Value, to: Conversion = FP32) -> Value:
        """Numbers, or zeros of their signs where they are subnormal in a format."""
        if not flushes or (by_mode and to.format.emin == FP32.format.emin):
            return x
        size, least = code.unary("math.absf", x), code.f32(2.0**to.format.emin)
        zero = code.f32(0.0) if by_mode else code.binary("mulf", x, code.f32(0.0))
        return code.select(code.compare("olt", size, least), zero, x)

    def product(a: Parts, b: Parts) -> Value:
        x, y = (flushed(parts[0], to) for parts, to in zip((a, b), fma.singles, strict=True))
        return flushed(code.binary("mulf", x, y))

    results = []
    for terms, c, each in zip(products.all(product), sums, drawn, strict=True):
        while len(terms) > 1:
            twos = [terms[n : n + 2] for n in range(0, len(terms), 2)]
            terms = [flushed(code.binary("addf", *two)) if len(two) == 2 else two[0] for two in twos]
        if flushes:  # the accumulator loses the sign of a zero
            c = code.binary("addf", flushed(c, fma.acc), code.f32(0.0))
        results.append(emit_round(code, flushed(code.binary("addf", c, terms[0])), fma.acc, noise=each.acc))
    return results


def _in_mode(fma: Fma) -> bool:
    """Whether the processor flushes as the definition has it, in the mode that replaces subnormal numbers by zeros.

    It looks at the magnitude before a number is rounded to multiples of 2^-149, which products that are exact are
    already. The signs of zeros that it keeps reach no result.
    """
    return fma.datapath["flush"] == 1 and fma.acc == FP32 and sum(to.format.precision for to in fma.singles) < 24


def _around(f: Function, s: Setting) -> AbstractContextManager[None]:
    return subnormals_flushed(f) if _in_mode(s.fma) else nullcontext()


def staged(code: Code, fma: Fma, products: Products, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append the sums of products that are aligned and cut, aligned again with the accumulators, and floored."""

    def value(a: Parts, b: Parts) -> Value:
        x = exact_product(code, a, b)
        beyond = code.compare("oge", code.unary("math.absf", x), code.f64(2.0**128))
        return code.select(beyond, code.binary("mulf", x, code.f64(float("inf"))), x)

    def stage(share: Products) -> _Stage:
        tops = largest_exponents(code, fma, share, [code.int(_BELOW_ALL)] * len(sums))
        scales = [cut_scale(code, top, fma.datapath["bits"]) for top in tops]
        return tops, cut_sums(code, share, scales, [code.f64(0.0)] * len(sums), value)

    return _second_stage(code, fma, [stage(share) for share in _shares(fma, products)], sums, drawn)


#: Of every accumulator, the largest exponent of its products, and their sum in units of the last bit that is kept.
_Stage = tuple[list[Value], list[Value]]


def _shares(fma: Fma, products: Products) -> list[Products]:
    ways = 1 + fma.datapath["apart"]
    return [products.share(n, ways) for n in range(ways)]


def _own_floor(code: Code, fma: Fma, x: Value, unit: Value) -> Value:
    """``x * 2^unit`` floored to the bits that a sum keeps below its exponent, which is emin of a subnormal number."""
    bits = code.cast("bitcast", code.unary("math.absf", x), "i64")
    exponent = code.cast("trunci", code.binary("shrui", bits, code.int(52, "i64")), "i32")
    exponent = code.binary("addi", exponent, code.binary("subi", unit, code.int(F64.bias)))
    exponent = code.binary("maxsi", exponent, code.int(fma.acc.format.emin))
    exponent = code.binary("minsi", exponent, code.int(_ABOVE_ALL))
    last = code.binary("subi", exponent, code.int(fma.datapath["sum"]))
    return code.binary("mulf", _scaled_floor(code, x, code.binary("subi", unit, last)), power_of_two(code, last))


def _second_stage(
    code: Code, fma: Fma, stages: Sequence[_Stage], sums: Accumulators, drawn: Sequence[Drawn]
) -> Accumulators:
    """Append the sum of the stages of products and of accumulators."""
    tops, totals = stages[0]
    if len(stages) > 1:
        (tops, totals), others = ([*tops], [*totals]), stages[1]
        for n, (x, y) in enumerate(zip(tops, others[0], strict=True)):
            tops[n] = code.binary("maxsi", x, y)
            floors = [_floored(code, *each, tops[n]) for each in ((totals[n], x), (others[1][n], y))]
            totals[n] = code.binary("addf", *floors)
    results = []
    for top, total, c, each in zip(tops, totals, sums, drawn, strict=True):
        x, highest = _aligned_sum(code, fma, top, total, c)
        results.append(_rounded(code, _own_floor(code, fma, x, highest), fma, each))
    return results


def _floored(code: Code, x: Value, top: Value, to: Value) -> Value:
    """Integers in units that belong to an exponent, floored to those that belong to another, which is not smaller."""
    return _scaled_floor(code, x, code.binary("subi", top, to))


def _scaled_floor(code: Code, x: Value, exponent: Value) -> Value:
    """``floor(x * 2^exponent)`` of numbers below 2^100: all below 2^-200 are the same."""
    scale = power_of_two(code, code.binary("maxsi", exponent, code.int(-300)))
    return code.unary("math.floor", code.binary("mulf", x, scale))


def _aligned_sum(code: Code, fma: Fma, top: Value, total: Value, c: Value) -> tuple[Value, Value]:
    """Products and accumulator aligned, floored and added; it counts the last bit of the sum below an exponent."""
    acc, bits, wide = fma.acc, fma.datapath["bits"], fma.datapath["sum"]
    least = code.binary("maxsi", exponent_of(code, c, acc), code.int(acc.format.emin))
    highest = code.binary("maxsi", top, least)
    total = _scaled_floor(
        code, total, code.binary("addi", code.binary("subi", top, highest), code.int(wide + 1 - bits))
    )
    start = _scaled_floor(code, code.cast("extf", c, "f64"), code.binary("subi", code.int(bits), highest))
    if fma.datapath["apart"]:
        far = code.compare("slt", least, code.binary("subi", highest, code.int(bits + 1)))
        start = code.select(far, code.f64(0.0), start)
    x = code.binary("addf", total, code.binary("mulf", start, code.f64(2.0 ** (wide + 1 - bits))))
    return x, code.binary("subi", highest, code.int(wide + 1))


DOT = replace(in_blocks(dot, exact_dot), limits=dot_limits, wide=True, cheap_wide=True)
PAIRWISE = replace(in_blocks(tree), around=_around)
STAGED = replace(in_blocks(staged, staged_integers.block), limits=staged_integers.limits, wide=True)
