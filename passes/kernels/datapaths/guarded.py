"""Cheap roundings for micro-kernels, each with the condition under which it is exact.

The condition is checked per tile on the packed operands and on the accumulator; a tile that does not meet it runs the
exact sequence of `chain.py`, so no bit depends on which one ran. Below, RN rounds to nearest even to the 24 bits of
binary32, RN_P to P bits, and u is the ulp of s.

Two FMAs (P <= 11, Veltkamp's split).
    With ``C = 2^(24-P)``: ``y = fma(s, 1 - C, e); r = fma(s, C, y)`` is RN_P(s + e) for every real s + e, as long as e
    is the error of s, s = RN(s + e). e = 0 is the rounding of a binary32 number.
    Proof, for 2^k <= s < 2^(k+1); let q = C * u be the quantum of P bits and v = s + e. C*s is N*q with N = s / u, and
    y = -RN(N*q - v). Where N*q - v >= 2^(k+24-P), its quantum is q: y = (j - N) * q with j*q next to v. At a tie v has
    P + 1 bits, so e = 0, s = (j + 1/2) * q, N is even, and the even multiple that RN takes is the even j. Where
    N*q - v is below that, s - 2^k is at most about 2^k / C <= q / 8, so v is nearer than q / 4 to 2^k = RN_P(v), and
    RN, whose quantum is now q / 2, gives (N - 2^k / q) * q. The last FMA is exact: j*q has P bits.

The error of a sum.
    p = a*b has at most 24 bits and no bit below 2^-149, so p is a binary32 number and Knuth's TwoSum gives e exactly;
    FMAs compute p + c and p - p' without p itself. Where rounding modes come with the instruction (AVX-512), rounding
    the sum down and up tells as much: two neighbours d < v < u. A P-bit rounding cannot tell v from (d + u) / 2, since
    its values and its ties are binary32 numbers; nor from d or u, whichever has an odd last bit (rounding to odd).

A power of two (P <= 22).
    With M = 1.5 * 2^(24-P) times the power of two at or below abs(x), ``(x + M) - M`` is RN_P(x): M keeps the sum in
    one binade, whose quantum is that of P bits. A power of two that stops at 2^emin rounds subnormals as well.

Noise and a mask (stochastic rounding).
    The noise goes below the kept bits of the encoding, and what is below them is cut off; the carry of the integer
    addition is that of the magnitude. Scaled by 2^(-126 - emin), the format's subnormals are those of binary32, so they
    are rounded alike. Scaling by a power of two commutes with RN unless a result is tiny and inexact: the underflow
    flag tells, and the tile is computed again. A sum cut to 24 bits serves the exact datapath if the noise is within
    them, as only the bits down to the noise decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.arithmetic.formats import Format
from numc.compiler.arithmetic.operators import Fma
from numc.compiler.arithmetic.reference.random import field_bits
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.chain import emit_sum, emit_to_odd

# Static rounding of an AVX-512 instruction (Intel SDM, _MM_FROUND_*): direction + no exceptions.
_DOWN, _UP, _TO_ZERO = 9, 10, 11
_AVX512 = 16  # the width that means it


@dataclass(frozen=True)
class Guard:
    """When the cheap sequence is exact, as bounds on exponents (powers of two).

    largest: every partial sum must stay below ``2 ** largest``.
    product: the smallest non-zero products ``2 ** (emin_a + emin_b)`` must reach ``2 ** product``.
    An accumulator of -0 at entry is outside of every guard.
    """

    largest: int
    product: int


def guard(fma: Fma, width: int) -> Guard | None:
    """Return the condition of the cheap sequence of `fma` on vectors of `width`, or None where there is none."""
    if fma.draws:
        return _noisy_guard(fma, width)
    to, fmt = fma.acc, fma.acc.format
    if fma.product is not None or to.rounding != "rne" or fma.datapath not in ("fp32", "exact"):
        return None
    exact = fma.datapath == "exact"
    # Several products have no error that one binary32 number holds: their sum is exact in binary64 only.
    if exact and (len(fma.terms) > 1 or sum(c.format.precision for c in fma.singles) > 24):
        return None
    if fmt.parts == 1 and not 2 <= fmt.precision <= 22:
        return None
    if fmt.exponent_bits == 8 and not fmt.subnormals:
        return None
    # An operand with p significant bits is a multiple of 2^(e-p+1); a compound value is one of at most 24 bits.
    grid = sum(23 if c.format.parts > 1 else c.format.significand_bits for c in fma.singles)
    if fmt.exponent_bits == 8:
        # Sums of multiples of the least subnormal: below 2^emin they are values of the format, nothing is rounded. The
        # accumulator is one of those multiples as a value of the format. BF16x3 is the identity on them.
        product = fmt.emin - fmt.significand_bits + grid
        # C * x stays finite; rounding one part of two also scales by 2^10, but is of the small part.
        largest = {1: 103 + fmt.precision, 2: 110, 3: 126}[fmt.parts]
    else:
        product = -149 + grid if exact else _UNBOUNDED
        saturates = fmt.finite and not to.overflow
        largest = 103 + fmt.precision if saturates else fmt.emax
    return Guard(largest, product)


_UNBOUNDED = -1000  # rounding the f32 sum is exact however small it is: its error is part of the definition


def _noisy_guard(fma: Fma, width: int) -> Guard | None:
    to, fmt = fma.acc, fma.acc.format
    if fma.product is not None or to.noise is None or fma.datapath not in ("fp32", "exact"):
        return None
    if fmt.parts > 1 or not 1 <= fmt.significand_bits <= 22 or not fmt.subnormals:
        return None
    # The exact sum cut to 24 bits has to reach down to the noise.
    reaches = width == _AVX512 and len(fma.terms) == 1 and fmt.precision + to.noise.bits <= 24
    if fma.datapath == "exact" and not reaches:
        return None
    saturates = fmt.finite and not to.overflow
    return Guard(126 if fmt.exponent_bits == 8 or saturates else fmt.emax, _UNBOUNDED)


def scale_of(fma: Fma) -> float:
    """What the cheap sequence multiplies all products and accumulators by."""
    return 2.0 ** (-126 - fma.acc.format.emin) if fma.draws else 1.0


def emit_noisy_fma(code: Code, a: list[str], b: list[str], c: str, fma: Fma, word: str, position: int | str) -> str:
    """Append a step of an operator that draws, exact under ``guard``, on products and accumulators times ``scale_of``.

    word: of the accumulator for this run of k, of which the step takes field `position`; or the noise itself if the
    position is empty.
    """
    to, fmt = fma.acc, fma.acc.format
    assert to.noise is not None
    cut = fma.datapath == "exact"
    total = _directed_fma(code, a[0], b[0], c, _TO_ZERO) if cut else emit_sum(code, a, b, c, fma)
    shift, bits = 23 - fmt.significand_bits, to.noise.bits
    top = bits if position == "" else field_bits(to.noise) * (int(position) + 1)
    # The highest bit of the noise goes right below the kept bits.
    noise = word
    if top != shift:
        name = "shli" if top < shift else "shrui"
        noise = code.binary(name, word, code.int(abs(shift - top)), "i32")
    if position != "" and not (top == 32 and bits >= shift):
        noise = code.binary("andi", noise, code.int((1 << shift) - (1 << max(shift - bits, 0))), "i32")
    total = code.binary("addi", code.cast("bitcast", total, "f32", "i32"), noise, "i32")
    total = code.binary("andi", total, code.int(0xFFFFFFFF ^ ((1 << shift) - 1)), "i32")
    result = code.cast("bitcast", total, "i32", "f32")
    if fmt.finite:
        result = _clamp(code, result, float(fmt.max_finite) * scale_of(fma))
    return result


def products_are_exact(fma: Fma, limits: Guard) -> bool:
    """Whether, under its guard, the product of a step is one and a binary32 number."""
    grid = sum(c.format.significand_bits for c in fma.singles)
    least = sum(c.format.emin - c.format.significand_bits for c in fma.singles)
    return len(fma.terms) == 1 and grid + 2 <= 24 and max(least, limits.product - grid) >= -149


def emit_fast_fma(code: Code, a: list[str], b: list[str], c: str, fma: Fma, noise: str = "", product: str = "") -> str:
    """Append one step of `fma` that is exact under its guard; returns the name of D.

    noise: what it draws. product: of `a` and `b`, if it is exact and there already.
    """
    if fma.draws:
        return emit_noisy_fma(code, a, b, c, fma, noise, "")
    fmt = fma.acc.format
    if fmt.parts == 3:
        return emit_sum(code, a, b, c, fma)  # 24 bits: also what the exact sum rounds to
    if fma.datapath == "exact":
        if fmt.parts == 2:
            return _exact_pair(code, a[0], b[0], c)
        if fmt.exponent_bits == 8 and fmt.precision <= 11:
            return _exact_two_fmas(code, a[0], b[0], c, fmt.precision)
        return _round(code, _sum_to_odd(code, a[0], b[0], c), fmt)
    x = code.binary("addf", product, c) if product else emit_sum(code, a, b, c, fma)
    if fmt.parts == 2:
        factor = 2.0**16
        y = code.fma(x, code.f32(-factor), x)
        rest = code.fma(x, code.f32(-(factor - 1)), _negate(code, y))
        t = code.fma(rest, code.f32(-factor), rest)
        second = code.fma(rest, code.f32(factor - 1), t)
        return code.binary("addf", x, second)
    return _round(code, x, fmt)


def _round(code: Code, x: str, fmt: Format) -> str:
    """Round `x`, a sum in f32 (rounded to odd for the exact datapath), to a format of one part."""
    if fmt.exponent_bits == 8:
        return _two_fmas(code, x, fmt.precision) if fmt.precision <= 11 else _by_power(code, x, _power(code, x), fmt)
    bits = code.cast("bitcast", x, "f32", "i32")
    sign = code.binary("andi", bits, code.int(0x80000000), "i32")
    if not fmt.subnormals:
        power = _power(code, x)
        flushed = code.compare("olt", power, code.f32(2.0**fmt.emin), "f32")
        rounded = _two_fmas(code, x, fmt.precision) if fmt.precision <= 11 else _by_power(code, x, power, fmt)
        return code.select(flushed, code.cast("bitcast", sign, "i32", "f32"), rounded)
    if code.width == _AVX512 and fmt.precision <= 11:
        # The split of max(|x|, 1.5 * 2^emin): below 2^emin the quantum stops shrinking.
        scale = _range(code, x, code.f32(1.5 * 2.0**fmt.emin), largest=True)
        factor = 2.0 ** (24 - fmt.precision)
        rounded = code.fma(scale, code.f32(factor), code.fma(scale, code.f32(-factor), x))
    else:
        least = code.f32(2.0**fmt.emin)
        power = _power(code, x)
        rounded = _by_power(code, x, code.select(code.compare("ogt", power, least, "f32"), power, least), fmt)
    if fmt.finite:
        rounded = _clamp(code, rounded, float(fmt.max_finite))
    # A result of zero keeps the sign of x.
    signed = code.binary("ori", code.cast("bitcast", rounded, "f32", "i32"), sign, "i32")
    return code.cast("bitcast", signed, "i32", "f32")


def _two_fmas(code: Code, x: str, precision: int) -> str:
    factor = 2.0 ** (24 - precision)
    y = code.fma(x, code.f32(-factor), x)
    return code.fma(x, code.f32(factor), y)


def _power(code: Code, x: str) -> str:
    """The power of two at or below the magnitude of `x`; 0 where that is subnormal."""
    field = code.binary("andi", code.cast("bitcast", x, "f32", "i32"), code.int(0x7F800000), "i32")
    return code.cast("bitcast", field, "i32", "f32")


def _by_power(code: Code, x: str, power: str, fmt: Format) -> str:
    factor = 1.5 * 2.0 ** (24 - fmt.precision)
    y = code.fma(power, code.f32(factor), x)
    return code.fma(power, code.f32(-factor), y)


def _clamp(code: Code, x: str, largest: float) -> str:
    if code.width == _AVX512:
        return _range(code, x, code.f32(largest), largest=False)
    high, low = code.f32(largest), code.f32(-largest)
    x = code.select(code.compare("olt", x, high, "f32"), x, high)
    return code.select(code.compare("ogt", x, low, "f32"), x, low)


def _exact_two_fmas(code: Code, a: str, b: str, c: str, precision: int) -> str:
    factor = 2.0 ** (24 - precision)
    if code.width != _AVX512:
        s, e = _sum_with_error(code, a, b, c)
        y = code.fma(s, code.f32(1 - factor), e)
        return code.fma(s, code.f32(factor), y)
    # s = d, e = (u - d) / 2: twice the sequence saves the halving inside it.
    d, u = (_directed_fma(code, a, b, c, mode) for mode in (_DOWN, _UP))
    y = code.fma(d, code.f32(1 - 2 * factor), u)
    return code.binary("mulf", code.fma(d, code.f32(2 * factor), y), code.f32(0.5))


def _exact_pair(code: Code, a: str, b: str, c: str) -> str:
    """BF16x2 of the exact sum.

    hi = RN_8(s), d = s - hi, a multiple of u with at most 16 bits, and lo is d + e rounded to 8 bits, but to no finer
    quantum than u (the parts of a value add up to a binary32 number). So lo = RN_8(d), unless d lies half way between
    8-bit numbers: then the sign of e decides, and any number with that sign and at most u / 2^10 may stand for e: too
    little to move t by its quantum, which is at least u / 2^8. Where s itself is half way, either hi gives the same
    hi + lo.
    The factor 2^10 is kept up to the last step, where it costs nothing.
    """
    factor, scale = 2.0**16, 2.0**10
    if code.width == _AVX512:
        s = code.fma(a, b, c)
        d, u = (_directed_fma(code, a, b, c, mode) for mode in (_DOWN, _UP))
        # (u - s) + (d - s): an ulp, or 0, with the sign of e.
        e = code.binary("addf", code.fma(s, code.f32(-2.0), u), d)
    else:
        s, e = _sum_with_error(code, a, b, c)
    y = code.fma(s, code.f32(-factor), s)
    rest = code.fma(s, code.f32(1 - factor), _negate(code, y))
    t = code.fma(rest, code.f32(scale * (1 - factor)), e)
    change = code.fma(rest, code.f32(scale * (factor - 1)), t)  # (lo - d) * scale
    return code.fma(change, code.f32(1 / scale), s)


def _sum_with_error(code: Code, a: str, b: str, c: str) -> tuple[str, str]:
    """s = RN(a*b + c) and its error, a*b + c - s."""
    s = code.fma(a, b, c)
    p_part = code.binary("subf", s, c)
    p_error = code.fma(a, b, _negate(code, p_part))
    c_part = code.binary("subf", s, p_part)
    c_error = code.binary("subf", c, c_part)
    return s, code.binary("addf", p_error, c_error)


def _sum_to_odd(code: Code, a: str, b: str, c: str) -> str:
    """a*b + c rounded to odd: 24 bits that a rounding to 22 or fewer cannot tell from the real number."""
    if code.width != _AVX512:
        return emit_to_odd(code, *_sum_with_error(code, a, b, c), "f32")
    down, up, cut = (
        code.cast("bitcast", _directed_fma(code, a, b, c, mode), "f32", "i32") for mode in (_DOWN, _UP, _TO_ZERO)
    )
    # Neighbours differ in the last bit; +0 and -0, for an exact zero, do not.
    inexact = code.binary("andi", code.binary("xori", down, up, "i32"), code.int(1), "i32")
    return code.cast("bitcast", code.binary("ori", cut, inexact, "i32"), "i32", "f32")


def _directed_fma(code: Code, a: str, b: str, c: str, mode: int) -> str:
    kind = code.ty("f32")
    rounding = code.llvm_constant(mode)
    return code.op(
        f'llvm.call_intrinsic "llvm.x86.avx512.vfmadd.ps.512"({a}, {b}, {c}, {rounding}) :'
        f" ({kind}, {kind}, {kind}, i32) -> {kind}"
    )


def _range(code: Code, x: str, bound: str, *, largest: bool) -> str:
    """VRANGEPS: whichever of `x` and `bound` has the larger (or smaller) magnitude, with the sign of `x`."""
    kind = code.ty("f32")
    what, every, current = code.llvm_constant(3 if largest else 2), code.llvm_constant(-1, "i16"), code.llvm_constant(4)
    return code.op(
        f'llvm.call_intrinsic "llvm.x86.avx512.mask.range.ps.512"({x}, {bound}, {what}, {x}, {every}, {current}) :'
        f" ({kind}, {kind}, i32, {kind}, i16, i32) -> {kind}"
    )


def _negate(code: Code, x: str) -> str:
    return code.op(f"arith.negf {x} : {code.ty('f32')}")
