"""The numbers that a rounding takes from its format: constants, or computed from the widths that a run chooses.

Those of open widths are computed once, in scalars, where a function begins; a rounding then reads them in its lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from numc.numerics.formats import RECORDS, Conversion, Fixed, Format
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, Carrier

_WITHOUT_NAN = [(fmt.exponent_bits, fmt.significand_bits) for fmt in RECORDS.values() if fmt.nan == "none"]
Whole = int | Value
Real = float | Value


@dataclass(frozen=True)
class Numbers:
    """The numbers by which values are rounded to a format of one part.

    shift: how many bits of the carrier's significand are cut off. ulp: the lowest kept bit of an encoding; half: the
    highest bit that is cut off, cut: all of these, kept: all others. lowest, below_half: what the kept bits, shifted
    down, are masked with, and what is added to that, to round to nearest even. least_normal, largest: the smallest
    normal and the largest finite number, as encodings. quantum: the distance of subnormal numbers; half_quantum: half
    of it, or anything if all numbers of the carrier are multiples of the quantum. magic: a number whose sum with a
    subnormal one is rounded to the quantum. to_quanta: factors that divide a number below the quantum by it.
    full_range: whether numbers are known to have the exponents of binary32, so that only bits are to be cut off;
    has_full_range: what tells it when the program runs, if nothing does before.
    """

    carrier: Carrier
    shift: Whole
    ulp: Whole
    half: Whole
    cut: Whole
    kept: Whole
    lowest: Whole
    below_half: Whole
    least_normal: Whole
    largest: Whole
    quantum: Real
    half_quantum: Real
    magic: Real
    to_quanta: tuple[Real, ...]
    full_range: bool
    has_full_range: Value | None = None

    def lanes(self, code: Code, number: Whole | Real) -> Value:
        """Append one of the numbers in every lane of `code`."""
        if isinstance(number, Value):
            return code.broadcast(number)
        return code.int(number, self.carrier.i) if isinstance(number, int) else self.carrier.constant(code, number)


def constants(fmt: Format, carrier: Carrier) -> Numbers:
    """Return the numbers of a record, or of fixed point, that is known when a program is compiled."""
    shift = carrier.significand_bits + 1 - fmt.precision
    ulp = 1 << shift
    quantum = fmt.unit_exponent
    # Fixed point has one distance up to its largest value. So have all numbers of binary32 below 2^-126.
    least_normal = fmt.integer_bits if isinstance(fmt, Fixed) else max(fmt.emin, 1 - F32.bias)
    return Numbers(
        carrier,
        shift,
        ulp,
        half=ulp >> 1,
        cut=ulp - 1,
        kept=(2 * carrier.sign - 1) ^ (ulp - 1),
        lowest=1,
        below_half=(ulp >> 1) - 1,
        least_normal=carrier.power(least_normal),
        largest=carrier.encoding(float(fmt.max_finite)),
        quantum=2.0**quantum,
        half_quantum=2.0 ** (quantum - 1),
        magic=2.0 ** (quantum + carrier.significand_bits),
        to_quanta=(2.0**-quantum,) if quantum >= -126 else (2.0**126, 2.0 ** (-126 - quantum)),
        full_range=carrier is F32 and fmt.is_full_range and fmt.precision > 1,
    )


def run_time(code: Code, widths: Value, to: Conversion, carrier: Carrier = F32) -> Numbers:
    """Append the numbers of a format whose widths a run chooses, as scalars.

    widths: the exponent bits in the upper half and the significand bits in the lower half of an i64 scalar.
    """
    c, i = code.scalar, carrier.i

    assert to.open is not None
    least, most = to.open.exponent

    def number(n: int) -> Value:
        return c.int(n, i)

    def less(a: Value, b: Value) -> Value:
        return c.binary("subi", a, b)

    def encoding(exponent: Value) -> Value:
        return c.binary("shli", c.binary("addi", exponent, number(carrier.bias)), number(carrier.significand_bits))

    def power(exponent: Value) -> Value:
        return c.cast("bitcast", encoding(exponent), carrier.f)

    significand, exponent = (c.cast("trunci", x, "i32") for x in (widths, c.i64("shrui", widths, 32)))
    if i == "i64":
        significand, exponent = (c.cast("extui", x, i) for x in (significand, exponent))
    zero, one = number(0), number(1)
    shift = less(number(carrier.significand_bits), significand)
    ulp = c.binary("shli", one, shift)
    half, cut = c.binary("shrui", ulp, one), less(ulp, one)
    top = c.binary("shli", one, less(exponent, one))  # the exponent of what follows the largest binade
    emin = less(number(2), top)
    beyond, gap = top, ulp
    if not to.format.has_infinities:
        # One code more is the NaN, but in the formats of Microscaling.
        beyond, gap = c.binary("addi", top, one), c.binary("shli", ulp, one)
        for e, m in _WITHOUT_NAN:
            both = c.binary("ori", c.binary("xori", exponent, number(e)), c.binary("xori", significand, number(m)))
            gap = c.select(c.compare("eq", both, zero), ulp, gap)
    elif least == 1:  # what is below the overflow of one exponent bit is subnormal, with twice the distance
        gap = c.select(c.compare("eq", exponent, one), c.binary("shli", ulp, one), ulp)
    # The quantum can be subnormal in the carrier, which no encoding of a power is, but a product of two powers.
    quantum = c.binary("mulf", power(emin), power(less(zero, significand)))
    return Numbers(
        carrier,
        shift,
        ulp,
        half,
        cut,
        kept=c.binary("xori", cut, number(2 * carrier.sign - 1)),
        lowest=c.binary("minui", cut, one),  # where no bit is cut off, nothing is added
        below_half=less(c.binary("maxui", half, one), one),
        least_normal=encoding(emin),
        largest=less(encoding(beyond), gap),
        quantum=quantum,
        half_quantum=c.binary("mulf", quantum, carrier.constant(c, 0.5)),
        magic=power(c.binary("addi", less(emin, significand), number(carrier.significand_bits))),
        to_quanta=(power(less(zero, emin)), power(significand)),
        full_range=carrier is F32 and least == 8,
        has_full_range=c.compare("eq", exponent, number(8)) if carrier is F32 and least < most == 8 else None,
    )


def by_range(code: Code, numbers: Numbers) -> Iterator[Numbers]:
    """Yield numbers to append code with: twice, for either case, where the run decides about their `full_range`.

    With the exponents of binary32 a rounding is half of the operations.
    """
    if numbers.has_full_range is None:
        yield numbers
        return
    with code.choose(numbers.has_full_range) as choice:
        with choice.then():
            yield replace(numbers, full_range=True)
        with choice.otherwise():
            yield replace(numbers, full_range=False)
