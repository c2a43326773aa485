"""Formats of few values in circuits, whatever their kind: codes are read by tables, and rounded to by their steps."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cache

from numc.hardware.circuits.exact_real import Real
from numc.hardware.encodings import Encoding
from numc.numerics.circuits import Whole, any_of, below, leading_zeros, lookup, maximum, minimum, select
from numc.numerics.exact.value import POINT
from numc.numerics.formats import Conversion, Format
from numc.numerics.formats.rounding import round_real
from numc.numerics.formats.steps import steps
from numc.support.errors import NumcError

MOST_BITS = 16
"""The bits of codes that have tables."""


def decode_few(fmt: Format, code: Whole) -> Real:
    """The value of a code. Raises NumcError for a format of many codes."""
    if fmt.bits > MOST_BITS:
        raise NumcError(
            f"format '{fmt.name}' has no circuit: want floating point, fixed point, posits, or codes of {MOST_BITS} "
            "bits at most"
        )
    values = [Encoding(fmt).decode(n) for n in range(1 << fmt.bits)]
    sizes = [abs(value) if type(value) is int else 0 for value in values]
    shifts = [(size & -size).bit_length() - 1 if size else 0 for size in sizes]
    least = min((shift for size, shift in zip(sizes, shifts, strict=True) if size), default=0)
    shifts = [shift if size else least for size, shift in zip(sizes, shifts, strict=True)]
    return Real(
        lookup([int(value < 0) for value in values], code),
        lookup([shift - POINT for shift in shifts], code),
        lookup([size >> shift for size, shift in zip(sizes, shifts, strict=True)], code),
        nan=lookup([int(value != value) for value in values], code),
        least=((0, least - POINT),),
    )


def encode_few(x: Real, to: Conversion) -> Whole:
    """The code of a number that is rounded once: that of the last step which does not begin above it.

    Raises NumcError for a format of many codes, and for a rounding that draws random bits.
    """
    fmt = to.format
    if fmt.bits > MOST_BITS or to.noise is not None:
        what = "that rounds to it" if to.noise is None else "that rounds stochastically to it"
        raise NumcError(
            f"format '{fmt.name}' has no circuit {what}: want eXmY, eXmYn, eXmYfn, fixed(i,f) or posits"
            + ("" if to.noise is not None else f", or codes of {MOST_BITS} bits at most")
        )
    rounding = _steps(to)
    last = len(rounding.codes) - 1
    key = rounding.key(x)
    number: Whole = 0  # that of the step, found from its highest bit down
    places = last.bit_length()
    starts = (*rounding.starts, *[rounding.beyond] * ((1 << places) - len(rounding.starts)))
    for bit in reversed(range(places)):
        middles = starts[1 << bit :: 2 << bit]  # of what the bits above leave
        number = number * 2 + (key >= lookup(middles, number) if len(middles) > 1 else key >= middles[0])
    code = lookup(rounding.codes, minimum(number, last))
    infinity = select(x.sign, _code(fmt, round_real(-math.inf, to)), _code(fmt, round_real(math.inf, to)))
    return select(x.nan, _code(fmt, math.nan), select(x.infinite, infinity, code))


@dataclass(frozen=True)
class _Steps:
    """The steps of a rounding: the keys where they begin, in ascending order, and the code of each.

    A key is an integer in the order of numbers: an exponent, counted from below the `least` one of all beginnings,
    `places` bits of the fraction, and one that is set where others follow; of a negative number its opposite.
    """

    starts: tuple[int, ...]
    codes: tuple[int, ...]
    least: int
    most: int
    places: int

    @property
    def beyond(self) -> int:
        """A key above that of every number."""
        return self.most - self.least + 3 << self.places + 1

    def key(self, x: Real) -> Whole:
        """The key of a number."""
        zeros, under = leading_zeros(x.significand, x.bits), x.bits - 1
        top = x.exponent + under - zeros
        fraction = below(x.significand << zeros, under)
        down = max(under - self.places, 0)
        kept = fraction >> down << max(self.places - under, 0)
        exponent = minimum(maximum(top - self.least + 1, 0), self.most - self.least + 2)
        size = (exponent << self.places | kept) << 1 | any_of(below(fraction, down))
        size = select(x.significand == 0, 0, select(exponent == 0, 1, size))
        return select(x.sign, -size, size)


@cache
def _steps(to: Conversion) -> _Steps:
    """The steps between infinities."""
    among = [(_float(start), _float(start - 1), value) for start, value in steps(to, wide=True)[1:]]
    inner = [each for each in among if math.isfinite(each[0]) and math.isfinite(each[1])]
    first = next((value for start, before, value in reversed(among) if before == -math.inf), round_real(-math.inf, to))
    # A step begins at a number of few bits, or behind one, which is the number before in binary64.
    begins = [min((start, False), (before, True), key=lambda each: _bits(each[0])) for start, before, _ in inner]
    exponents = [math.frexp(value)[1] - 1 for value, _ in begins if value]
    least, most = min(exponents, default=0), max(exponents, default=0)
    bits = max(_bits(value) for value, _ in begins) - 1

    def key(value: float, behind: bool) -> int:
        if not value:
            return int(behind)
        fraction, exponent = math.frexp(abs(value))
        size = (exponent - 1 - least + 1 << bits | int(fraction * 2 ** (bits + 1)) - (1 << bits)) << 1
        return behind + (size if value > 0 else -size)

    starts = [-1 << bits + 2 + (most - least + 3).bit_length(), *(key(*each) for each in begins)]
    codes = [_code(to.format, value) for value in (first, *(value for *_, value in inner))]
    return _Steps(tuple(starts), tuple(codes), least, most, max(bits, 0))


def _float(key: int) -> float:
    """The binary64 number of a key of numerics/formats/steps.py."""
    code = key if key >= 0 else key ^ (1 << 63) - 1
    return float(struct.unpack("<d", struct.pack("<q", code))[0])


def _bits(value: float) -> int:
    """The significant bits of a number; none of zero."""
    numerator = abs(value.as_integer_ratio()[0])
    return (numerator // (numerator & -numerator)).bit_length() if numerator else 0


def _code(fmt: Format, value: float) -> int:
    """The code of a value; of a NaN that has none, that of a zero."""
    if value != value:
        return fmt.code_of_nan() if fmt.has_nan else 0
    return fmt.encode(value)
