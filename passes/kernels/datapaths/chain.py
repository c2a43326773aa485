"""FMA operators as straight-line code, exact for every input (arithmetic.md section 3)."""

from __future__ import annotations

from collections.abc import Sequence

from numc.compiler.arithmetic.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.values.rounding import F64, emit_round

Drawn = tuple[str, str]  # the noise of the product's rounding and of the accumulator's, as far as they draw
NOTHING: Drawn = ("", "")


def emit_fma(code: Code, a: Sequence[str], b: Sequence[str], c: str, fma: Fma, drawn: Drawn = NOTHING) -> str:
    """Append one step ``D = round_acc(sum of products + C)`` on the parts of `a` and `b`; returns the name of D."""
    if fma.datapath == "exact" and not is_one_fma(fma):
        return _exact(code, a, b, c, fma, drawn)
    return emit_round(code, emit_sum(code, a, b, c, fma, drawn[0]), fma.acc, noise=drawn[1])


def emit_sum(code: Code, a: Sequence[str], b: Sequence[str], c: str, fma: Fma, noise: str = "") -> str:
    """The fp32 datapath before its last rounding: P by f32 FMAs, least significant product first, then P + C."""
    (i, j), *rest = fma.terms
    if fma.product is None and not rest:
        return code.fma(a[i], b[j], c)
    product = code.binary("mulf", a[i], b[j])
    for i, j in rest:
        product = code.fma(a[i], b[j], product)
    if fma.product is not None:
        product = emit_round(code, product, fma.product, noise=noise)
    return code.binary("addf", product, c)


def is_one_fma(fma: Fma) -> bool:
    """Whether a step is an f32 FMA. It rounds once: with a binary32 accumulator it is the exact datapath, too."""
    return fma.product is None and len(fma.terms) == 1 and str(fma.acc) == "fp32"


def _exact(code: Code, a: Sequence[str], b: Sequence[str], c: str, fma: Fma, drawn: Drawn) -> str:
    """One rounding of the exact real value.

    In binary64 every product of two parts is exact, and so is any sum of them: all are multiples of ulp(a) * ulp(b) and
    below 2^51 of those. The sum with C is rounded to odd (TwoSum, then the last bit), which a second rounding to at
    most 24 bits cannot tell from the real number.
    """

    def wide(x: str) -> str:
        return code.cast("extf", x, "f32", "f64")

    wide_a, wide_b = [wide(x) for x in a], [wide(x) for x in b]
    product = ""
    for i, j in reversed(fma.terms):  # most significant first: an infinity meets the fewest zeros either way
        if product:
            product = code.fma(wide_a[i], wide_b[j], product, "f64")
        else:
            product = code.binary("mulf", wide_a[i], wide_b[j], "f64")
    if fma.product is not None:
        product = emit_round(code, product, fma.product, F64, drawn[0])
    total = emit_add_to_odd(code, product, wide(c))
    if str(fma.acc) != "fp32":  # the truncf below is that conversion
        total = emit_round(code, total, fma.acc, F64, drawn[1])
    return code.cast("truncf", total, "f64", "f32")


def emit_add_to_odd(code: Code, x: str, y: str) -> str:
    """Append x + y in binary64 rounded to odd (Knuth's TwoSum; Boldo and Melquiond 2008)."""
    total = code.binary("addf", x, y, "f64")
    y_part = code.binary("subf", total, x, "f64")
    x_part = code.binary("subf", total, y_part, "f64")
    x_error = code.binary("subf", x, x_part, "f64")
    y_error = code.binary("subf", y, y_part, "f64")
    return emit_to_odd(code, total, code.binary("addf", x_error, y_error, "f64"), "f64")


def emit_to_odd(code: Code, total: str, error: str, f: str) -> str:
    """Append what turns a sum rounded to nearest and its error (both in type `f`) into the sum rounded to odd."""
    i = "i" + f[1:]
    bits = code.cast("bitcast", total, f, i)
    error_bits = code.cast("bitcast", error, f, i)
    # Step towards the error: +1 on the encoding when both have one sign, -1 otherwise; only for an even last bit.
    differs = code.binary("shrsi", code.binary("xori", bits, error_bits, i), code.int(int(i[1:]) - 1, i), i)
    step = code.binary("ori", differs, code.int(1, i), i)
    moved = code.cast("bitcast", code.binary("addi", bits, step, i), i, f)
    even = code.compare("eq", code.binary("andi", bits, code.int(1, i), i), code.int(0, i), i)
    zero = code.f32(0.0) if f == "f32" else code.f64(0.0)
    inexact = code.compare("one", error, zero, f)  # ordered: the NaN error of an infinity is not inexact
    return code.select(code.binary("andi", even, inexact, "i1"), moved, total, f)
