"""Multiply-adds in software, exact for every input (arithmetic.md section 3): the datapaths ``fp32`` and ``exact``."""

from __future__ import annotations

from collections.abc import Iterator

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import NOTHING, Drawn
from numc.passes.kernels.setting import Parts
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F64
from numc.passes.kernels.values.rounding import emit_round


def fp32_step(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
    """``D = round_acc(P + C)``, where P and the sum are binary32."""
    return emit_round(code, emit_sum(code, a, b, c=c, fma=fma, drawn=drawn), fma.acc, noise=drawn.acc)


def emit_sum(code: Code, a: Parts, b: Parts, c: Value, fma: Fma, drawn: Drawn = NOTHING) -> Value:
    """The fp32 datapath before its last rounding: P by f32 FMAs, least significant product first, then P + C."""
    (i, j), *rest = fma.terms
    if fma.product is None and not rest:
        return code.fma(a[i], b[j], c)
    product = code.binary("mulf", a[i], b[j])
    for i, j in rest:
        product = code.fma(a[i], b[j], product)
    if fma.product is not None:
        product = emit_round(code, product, fma.product, noise=drawn.product, widths=drawn.widths)
    return code.binary("addf", product, c)


def fp32_addends(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Iterator[tuple[Value, Value]]:
    """The additions of a step, as pairs of what is added, both in binary32. The last one adds the product to C."""
    (i, j), *rest = fma.terms
    product = code.binary("mulf", a[i], b[j])
    for i, j in rest:
        yield code.binary("mulf", a[i], b[j]), product
        product = code.fma(a[i], b[j], product)
    if fma.product is not None:
        product = emit_round(code, product, fma.product, noise=drawn.product, widths=drawn.widths)
    yield product, c


def exact_addends(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Iterator[tuple[Value, Value]]:
    """The one addition of a step: its product, in binary32, and C."""
    if fma.product is None and len(fma.terms) == 1:
        yield from fp32_addends(code, fma, a, b=b, c=c, drawn=drawn)
    else:
        yield code.cast("truncf", emit_product(code, a, b, fma, drawn), "f32"), c


def emit_product(code: Code, a: Parts, b: Parts, fma: Fma, drawn: Drawn) -> Value:
    """The exact sum of the products in binary64; rounded to the product's format, if there is one.

    Every product of two parts is exact there, and so is any sum of them: all are multiples of ulp(a) * ulp(b) and below
    2^51 of those.
    """
    wide_a, wide_b = ([code.cast("extf", part, "f64") for part in parts] for parts in (a, b))
    # Most significant first: an infinity meets the fewest zeros either way.
    (i, j), *rest = reversed(fma.terms)
    product = code.binary("mulf", wide_a[i], wide_b[j])
    for i, j in rest:
        product = code.fma(wide_a[i], wide_b[j], product)
    if fma.product is None:
        return product
    return emit_round(code, product, fma.product, carrier=F64, noise=drawn.product, widths=drawn.widths)


def exact_step(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
    """One rounding of the exact real value.

    The sum with C is rounded to odd in binary64 (TwoSum, then the last bit), which a second rounding to at most 24 bits
    cannot tell from the real number.
    """
    if fma.is_one_fma:
        return fp32_step(code, fma, a, b=b, c=c, drawn=drawn)
    product = emit_product(code, a, b, fma, drawn)
    total = emit_add_to_odd(code, product, code.cast("extf", c, "f64"))
    if str(fma.acc) != "fp32":  # the truncf below is that conversion
        total = emit_round(code, total, fma.acc, F64, drawn.acc)
    return code.cast("truncf", total, "f32")


def emit_add_to_odd(code: Code, x: Value, y: Value) -> Value:
    """Append x + y in binary64 rounded to odd (Boldo and Melquiond 2008)."""
    return emit_to_odd(code, *emit_two_sum(code, x, y))


def emit_two_sum(code: Code, x: Value, y: Value) -> tuple[Value, Value]:
    """Append x + y and its error (Knuth's TwoSum), which is a NaN if the sum is not finite."""
    total = code.binary("addf", x, y)
    y_part = code.binary("subf", total, x)
    x_part = code.binary("subf", total, y_part)
    x_error = code.binary("subf", x, x_part)
    y_error = code.binary("subf", y, y_part)
    return total, code.binary("addf", x_error, y_error)


def emit_to_odd(code: Code, total: Value, error: Value) -> Value:
    """Append what turns a sum rounded to nearest and its error (both f32 or both f64) into the sum rounded to odd."""
    f = total.type.element
    i = "i" + f[1:]
    bits = code.cast("bitcast", total, i)
    error_bits = code.cast("bitcast", error, i)
    # The encoding below, where the error has the other sign; of it and the next one, that whose last bit is 1.
    differs = code.binary("shrsi", code.binary("xori", bits, error_bits), code.int(int(i[1:]) - 1, i))
    odd = code.cast("bitcast", code.binary("ori", code.binary("addi", bits, differs), code.int(1, i)), f)
    zero = code.f32(0.0) if f == "f32" else code.f64(0.0)
    inexact = code.compare("one", error, zero)  # ordered: the NaN error of an infinity is not inexact
    return code.select(inexact, odd, total)
