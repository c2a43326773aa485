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

A product and two additions (P <= 11, Dekker's split).
    ``g = (C + 1) * x; r = g + (x - g)`` is RN_P(x) for every binary32 x, and takes only two of the units of FMAs where
    additions have units of their own.
    Proof, with k, u, q and N as above for x: N*q = C*x, and g = RN(N*q + x) = N*q + x + d. If g is below 2^(k+25-P),
    its quantum is q, so abs(d) <= q/2, and x - g = -(N*q + d) rounds to -N*q: at a tie, abs(d) = q/2, x is half way
    between multiples of q, so N is even and the even multiple is N*q. Then r = g - N*q is the multiple of q next to x,
    at a tie the even one, as g and N*q are even multiples. If g is above, its quantum is 2q, and x is nearer than q/4
    to 2^(k+1) = RN_P(x): g is 2^(k+1) + N*q or, for an odd N, 2^(k+1) + (N-1)*q, and x - g rounds to 2^(k+1) - g. The
    last addition is exact: r has P bits.

The error of a sum.
    p = a*b has at most 24 bits and no bit below 2^-149, so p is a binary32 number and Knuth's TwoSum gives e exactly;
    FMAs compute p + c and p - p' without p itself. Where rounding modes come with the instruction (AVX-512), rounding
    the sum down and up tells as much: two neighbours d < v < u. A P-bit rounding cannot tell v from (d + u) / 2, since
    its values and its ties are binary32 numbers; nor from d or u, whichever has an odd last bit (rounding to odd).

A power of two (P <= 22).
    With M = 1.5 * 2^(24-P) times the power of two at or below abs(x), ``(x + M) - M`` is RN_P(x): M keeps the sum in
    one binade, whose quantum is that of P bits. A power of two that stops at 2^emin rounds subnormals as well.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.binary32 import INFINITY
from numc.numerics.formats import FORMATS, Conversion
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import Drawn, Guard
from numc.passes.kernels.datapaths.steps.chain import (
    emit_sum,
    emit_to_odd,
    exact_addends,
    exact_step,
    fp32_addends,
    fp32_step,
)
from numc.passes.kernels.datapaths.walks import PLAIN
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value


def limits(s: Setting) -> Guard | None:
    """When the cheap sequence may run."""
    return guard(s.fma)


def guard(fma: Fma) -> Guard | None:
    """Return the condition of the cheap sequence of `fma`, an operator without random bits, or None if it has none."""
    to, fmt = fma.acc, fma.acc.format
    if fma.datapath.name not in ("fp32", "exact") or (fma.product is None and not _is_cheap(to)):
        return None
    exact = fma.datapath.name == "exact"
    # Several products have no error that one binary32 number holds: their sum is exact in binary64 only.
    if exact and (len(fma.terms) > 1 or sum(c.format.precision for c in fma.singles) > 24):
        return None
    # An operand with p significant bits is a multiple of 2^(e-p+1); a compound value is one of at most 24 bits.
    grid = sum(23 if c.format.parts > 1 else c.format.precision - 1 for c in fma.singles)
    least, largest = _UNBOUNDED, 126
    if fma.product is not None:
        if exact or not _has_cheap_product(fma):
            return None
        largest = _largest(fma.product)
        if fma.product.format.is_full_range:
            grid = min(grid, fma.product.format.precision - 1)
            least = fma.product.format.emin
    if fmt.is_full_range:
        # Sums of multiples of the least subnormal: below 2^emin they are values of the format, nothing is rounded. The
        # accumulator is one of those multiples as a value of the format. BF16x3 is the identity on them. Products in
        # formats of fewer exponent bits are such multiples anyway.
        if fma.product is None or fma.product.format.is_full_range:
            least = max(least, fmt.unit_exponent + grid)
    elif exact:
        least = -149 + grid
    # With subnormals or zeros to look after, a step keeps the sign of a zero as well.
    return Guard(min(largest, _largest(to)), least, minus_zero=not fmt.is_full_range)


def _keeps_all(to: Conversion) -> bool:
    """Whether binary32 numbers stay as they are."""
    return to.format == _FP32


def _is_cheap(to: Conversion) -> bool:
    """Whether a rounding to the format has a cheap sequence."""
    fmt = to.format
    if to.rounding != "rne" or to.open is not None or not fmt.is_usual or (fmt.is_full_range and not fmt.is_gradual):
        return False
    return fmt.parts > 1 or 2 <= fmt.precision <= 22


def _has_cheap_product(fma: Fma) -> bool:
    """Whether steps that round the product have one, which keeps the sign of a zero if accumulators can become -0."""
    product, acc = fma.product, fma.acc
    assert product is not None
    if len(fma.terms) > 1 or product.format.parts > 1 or not (_is_cheap(acc) or _keeps_all(acc)):
        return False
    if _keeps_all(product):
        return _is_cheap(acc)
    return _is_cheap(product) and (not product.format.is_full_range or acc.format.is_full_range)


def _largest(to: Conversion) -> int:
    """The `Guard.largest` of the cheap rounding to a format."""
    fmt = to.format
    if _keeps_all(to):
        return 126
    if fmt.is_full_range:
        # C * x stays finite; rounding one part of two also scales by 2^10, but is of the small part.
        return {1: 103 + fmt.precision, 2: 110, 3: 126}[fmt.parts]
    return 103 + fmt.precision if saturates(to) else fmt.emax


def saturates(to: Conversion) -> bool:
    """Whether what is beyond the largest number of the format becomes that number."""
    return to.saturates


def splits(fma: Fma) -> bool:
    """Whether a cheap step of `fma` is a sum and `split`, once or for each part, without more to do."""
    fmt = fma.acc.format
    if fma.datapath.name != "fp32" or fma.product is not None or guard(fma) is None or fmt.parts > 2:
        return False
    return fmt.parts == 2 or (fmt.precision <= 11 and (fmt.is_full_range or not fmt.is_gradual))


def together(s: Setting) -> int:
    """Two accumulators, unless a step is one FMA.

    LLVM, left free, loads the parts of all rows first, and spills the accumulators. Where roundings are additions,
    units stay busy only if operations for both kinds alternate. More than two accumulators take too many registers.
    """
    fma, fmt = s.fma, s.fma.acc.format
    single_fma = fma.is_one_fma or (fma.product is None and len(fma.terms) == 1 and fmt.parts == 3)
    return 1 if single_fma else 2


_FP32 = FORMATS["fp32"]
_UNBOUNDED = -1000  # rounding the f32 sum is exact however small it is: its error is part of the definition


def cheap_step(
    code: Code, fma: Fma, isa: InstructionSet, a: Parts, b: Parts, c: Value, drawn: Drawn, product: Value | None = None
) -> Value:
    """Append one step of `fma` that is exact under its guard. product: of `a` and `b`, if it is there and exact."""
    return scaled_step(code, fma, isa, a=a, b=b, c=c, product=product)


def scaled_step(
    code: Code, fma: Fma, isa: InstructionSet, a: Parts, b: Parts, c: Value, product: Value | None, scale: float = 1
) -> Value:
    """Append the same on products and accumulators times `scale`, a power of two."""
    fmt = fma.acc.format
    if fmt.parts == 3:
        return emit_sum(code, a, b, c, fma)  # 24 bits: also what the exact sum rounds to
    if fma.datapath.name == "exact":
        if fmt.parts == 2:
            return _exact_pair(code, isa, a[0], b[0], c)
        if fmt.is_full_range and fmt.precision <= 11:
            return _exact_two_fmas(code, isa, a[0], b=b[0], c=c, precision=fmt.precision)
        return _round(code, isa, _sum_to_odd(code, isa, a[0], b[0], c), fma.acc, scale)
    if fma.product is not None:
        product = _round(code, isa, code.binary("mulf", a[0], b[0]), fma.product, scale)
    x = code.binary("addf", product, c) if product is not None else emit_sum(code, a, b, c, fma)
    return _round_pair(code, isa, x) if fmt.parts == 2 else _round(code, isa, x, fma.acc, scale)


def _round_pair(code: Code, isa: InstructionSet, x: Value) -> Value:
    """Round `x`, a sum in f32, to BF16x2."""
    factor = 2.0**16
    if isa.adders is not None:
        first = split(code, isa, x, 8)
        rest = code.binary("subf", x, first)
        y = code.fma(rest, code.f32(-factor), rest)
        return code.binary("addf", first, code.fma(rest, code.f32(factor), y))
    y = _less(code, isa, x, factor)
    rest = code.fma(x, code.f32(-(factor - 1)), code.unary("arith.negf", y))
    t = _less(code, isa, rest, factor)
    second = code.fma(rest, code.f32(factor - 1), t)
    return code.binary("addf", x, second)


def _round(code: Code, isa: InstructionSet, x: Value, to: Conversion, scale: float) -> Value:
    """Round `x`, an f32 number (rounded to odd for the exact datapath), to a format of one part; all are scaled."""
    fmt, precision = to.format, to.format.precision
    if _keeps_all(to):
        return x
    if fmt.is_full_range:
        return split(code, isa, x, precision) if precision <= 11 else _by_power(code, x, _power(code, x), precision)
    least_normal = scale * 2.0**fmt.emin
    if not fmt.is_gradual:
        sign = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(0x80000000))
        power = _power(code, x)
        flushed = code.compare("olt", power, code.f32(least_normal))
        rounded = split(code, isa, x, precision) if precision <= 11 else _by_power(code, x, power, precision)
        return code.select(flushed, code.cast("bitcast", sign, "f32"), rounded)
    if isa.at_least is not None and precision <= 11:
        # The split of max(|x|, 1.5 * 2^emin): below 2^emin the quantum stops shrinking.
        size = isa.at_least(code, x, 1.5 * least_normal)
        factor = 2.0 ** (24 - precision)
        rounded = code.fma(size, code.f32(factor), code.fma(size, code.f32(-factor), x))
    else:
        least = code.f32(least_normal)
        power = _power(code, x)
        rounded = _by_power(code, x, isa.larger(code, power, least), precision)
    if saturates(to):
        rounded = isa.clamp(code, rounded, scale * float(fmt.max_finite))
    return isa.signed(code, rounded, x)  # a result of zero keeps the sign of x


def split(code: Code, isa: InstructionSet, x: Value, precision: int) -> Value:
    """RN_P(x) for a precision of up to 11 bits."""
    factor = 2.0 ** (24 - precision)
    if isa.adders is not None:
        g = code.binary("mulf", x, code.f32(factor + 1))
        return code.binary("addf", g, code.binary("subf", x, g))
    y = _less(code, isa, x, factor)
    return code.fma(x, code.f32(factor), y)


def _less(code: Code, isa: InstructionSet, x: Value, factor: float) -> Value:
    """x - factor * x, rounded once. Signs of zeros differ, but reach no result: one of the other sign is added."""
    if isa.overwrites_addend:
        return code.binary("mulf", x, code.f32(1 - factor))
    return code.fma(x, code.f32(-factor), x)


def _power(code: Code, x: Value) -> Value:
    """The power of two at or below the magnitude of `x`; 0 where that is subnormal."""
    field = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(INFINITY))
    return code.cast("bitcast", field, "f32")


def _by_power(code: Code, x: Value, power: Value, precision: int) -> Value:
    factor = 1.5 * 2.0 ** (24 - precision)
    y = code.fma(power, code.f32(factor), x)
    return code.fma(power, code.f32(-factor), y)


def _exact_two_fmas(code: Code, isa: InstructionSet, a: Value, b: Value, c: Value, precision: int) -> Value:
    factor = 2.0 ** (24 - precision)
    if isa.fma_rounded is None:
        s, e = _sum_with_error(code, a, b, c)
        y = code.fma(s, code.f32(1 - factor), e)
        return code.fma(s, code.f32(factor), y)
    # s = d, e = (u - d) / 2: twice the sequence saves the halving inside it.
    d, u = (isa.fma_rounded(code, a, b, c, direction) for direction in ("down", "up"))
    y = code.fma(d, code.f32(1 - 2 * factor), u)
    return code.binary("mulf", code.fma(d, code.f32(2 * factor), y), code.f32(0.5))


def _exact_pair(code: Code, isa: InstructionSet, a: Value, b: Value, c: Value) -> Value:
    """BF16x2 of the exact sum.

    hi = RN_8(s), d = s - hi, a multiple of u with at most 16 bits, and lo is d + e rounded to 8 bits, but to no finer
    quantum than u (the parts of a value add up to a binary32 number). So lo = RN_8(d), unless d lies half way between
    8-bit numbers: then the sign of e decides, and any number with that sign and at most u / 2^10 may stand for e: too
    little to move t by its quantum, which is at least u / 2^8. Where s itself is half way, either hi gives the same
    hi + lo.
    The factor 2^10 is kept up to the last step, where it costs nothing.
    """
    factor, scale = 2.0**16, 2.0**10
    if isa.fma_rounded is not None:
        s = code.fma(a, b, c)
        d, u = (isa.fma_rounded(code, a, b, c, direction) for direction in ("down", "up"))
        # (u - s) + (d - s): an ulp, or 0, with the sign of e.
        e = code.binary("addf", code.fma(s, code.f32(-2.0), u), d)
    else:
        s, e = _sum_with_error(code, a, b, c)
    y = _less(code, isa, s, factor)
    rest = code.fma(s, code.f32(1 - factor), code.unary("arith.negf", y))
    t = code.fma(rest, code.f32(scale * (1 - factor)), e)
    change = code.fma(rest, code.f32(scale * (factor - 1)), t)  # (lo - d) * scale
    return code.fma(change, code.f32(1 / scale), s)


def _sum_with_error(code: Code, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """s = RN(a*b + c) and its error, a*b + c - s."""
    s = code.fma(a, b, c)
    p_part = code.binary("subf", s, c)
    p_error = code.fma(a, b, code.unary("arith.negf", p_part))
    c_part = code.binary("subf", s, p_part)
    c_error = code.binary("subf", c, c_part)
    return s, code.binary("addf", p_error, c_error)


def _sum_to_odd(code: Code, isa: InstructionSet, a: Value, b: Value, c: Value) -> Value:
    """a*b + c rounded to odd: 24 bits that a rounding to 22 or fewer cannot tell from the real number."""
    if isa.fma_rounded is None:
        return emit_to_odd(code, *_sum_with_error(code, a, b, c))
    down, up, cut = (
        code.cast("bitcast", isa.fma_rounded(code, a, b, c, direction), "i32") for direction in ("down", "up", "zero")
    )
    # Neighbours differ in the last bit; +0 and -0, for an exact zero, do not.
    inexact = code.binary("andi", code.binary("xori", down, up), code.int(1))
    return code.cast("bitcast", code.binary("ori", cut, inexact), "f32")


FP32 = replace(
    PLAIN,
    step=fp32_step,
    cheap=cheap_step,
    limits=limits,
    together=together,
    additions=lambda fma: len(fma.terms),
    addends=fp32_addends,
    in_place=True,
)
EXACT = replace(
    PLAIN,
    step=exact_step,
    cheap=cheap_step,
    limits=limits,
    additions=lambda fma: 1,
    addends=exact_addends,
    in_place=True,
)
