"""Formats of few exponent bits: what is beyond their largest number raises the processor's overflow flag.

A bound on sums that is known before they are computed is of no use here: in fp16 sums of 256 products of numbers up to
16 may exceed 65504, but hardly ever do. So accumulators and lanes are scaled by a power of two that makes the numbers
which a rounding multiplies by about ``C = 2^(24-P)`` (guarded.py) overflow in binary32, if they are of the format's
last binade or beyond. The flag is looked at once per tile and block of k, and a tile that raised it is computed again
by the exact sequence. What is next to the largest number may raise it without need.

Proof, with T = 2^(104+P), which is C times smaller than 2^128, and the scale T / 2^emax (the larger one, if products
and accumulators have such formats): a number that the format cannot hold rounds to more than its largest one, and is
at least 1.25 * 2^emax (in fp16, 2 * 2^emax less half an ulp; the least of all is e3m1fn, whose largest number is
2^emax), 1.25 * T when scaled. All sequences for P >= 2 multiply such a number, or the power of two below it and 1.5,
by C, C - 1 or C + 1, at least 2^13 - 1 where it is C - 1: this is above 2^128. A sum that is itself above 2^128 raises
the flag as well, except under rounding modes of AVX-512's instructions, which raise none; then it is 2^128 less an ulp
or infinite, and the rounding that follows raises it.
Scaling changes no rounding: it commutes with RN unless the number is subnormal in binary32, scaled or not. Products
that are subnormal without the scale, and sums that are, become zeros of the same sign in the format or, where only
products have it, are what the accumulator was before it. (Of several products the first may be subnormal, and decide
on the sign; so these are left out.)
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.formats import Conversion
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import Datapath, Drawn, Guard
from numc.passes.kernels.datapaths.steps import guarded
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value

#: With more than 5 exponent bits the bound that is known before hardly ever fails, and costs no scaling.
_LEAST_NORMAL = -14


def applies(fma: Fma) -> bool:
    """Whether sums of the operator, which draws no random bits, are better bounded in that way."""
    if guarded.guard(fma) is None or len(fma.terms) > 1 or fma.acc.format.parts > 1:
        return False
    return any(to.format.emin >= _LEAST_NORMAL for to in _bounded(fma))


def _bounded(fma: Fma) -> list[Conversion]:
    """The conversions of an operator beyond whose largest number are infinities or NaN, which binary32 could hold."""
    conversions = [to for to in (fma.product, fma.acc) if to is not None]
    return [to for to in conversions if not to.format.is_full_range and not guarded.saturates(to)]


def limits(s: Setting) -> Guard | None:
    """As without the scale, but only the accumulators at entry are bounded: they are finite."""
    guard = guarded.guard(s.fma)
    return None if guard is None else replace(guard, largest=s.fma.acc.format.emax + 3, entry=True)


def scale(s: Setting) -> float:
    """The factor of products and accumulators."""
    return _scale(s.fma)


def _scale(fma: Fma) -> float:
    return max(float(2.0 ** (104 + to.format.precision - to.format.emax)) for to in _bounded(fma))


def cheap_step(
    code: Code, fma: Fma, isa: InstructionSet, a: Parts, b: Parts, c: Value, drawn: Drawn, product: Value | None = None
) -> Value:
    """Append one step, scaled."""
    return guarded.scaled_step(code, fma, isa, a=a, b=b, c=c, product=product, scale=_scale(fma))


def overflowing(base: Datapath) -> Datapath:
    """The datapath `base`, fp32 or exact, with that bound."""
    return replace(base, cheap=cheap_step, limits=limits, scale=scale)
