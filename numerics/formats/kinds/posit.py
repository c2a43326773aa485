"""Posits: a run of equal bits, the regime, makes the exponent of a code, and leaves the rest of it to the fraction."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from numc.numerics.exact.multiples import chosen_multiple
from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats.format import Finite, Format, check_code, power
from numc.numerics.formats.kind import Kind
from numc.numerics.roundings import Rounding
from numc.support.arguments import whole_number
from numc.support.errors import NumcError, quoted

_EXACT = Rounding("rtz", 0, saturates=True)
STANDARD_EXPONENT_BITS = 2
"""Of the Standard for Posit Arithmetic (2022), for every width."""


@dataclass(frozen=True)
class Posit(Format):
    """Posits of `width` bits with `exponent_bits` behind the regime (Posit Standard 2022, where these are 2).

    There is one code, that of the sign bit alone, which stands for infinities and NaN (NaR). No number but 0 becomes 0,
    and none becomes NaR, under any rounding. Raises NumcError for sizes out of range.
    """

    width: int
    exponent_bits: int = STANDARD_EXPONENT_BITS

    def __post_init__(self) -> None:
        if not 3 <= self.width <= 24 or not 0 <= self.exponent_bits <= 4:
            raise NumcError(f"format '{self.name}': want 3 to 24 bits, and 0 to 4 bits of exponent")
        if self.scale > 126 or self.precision > 23:
            raise NumcError(
                f"format '{self.name}': values up to 2^{self.scale} with up to {self.precision} significant bits, "
                "want at most 2^126 and 23, because float32 holds them"
            )

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        if self.exponent_bits == STANDARD_EXPONENT_BITS:
            return f"posit{self.width}"
        return f"posit({self.width},{self.exponent_bits})"

    @property
    def scale(self) -> int:
        """The exponent of the largest value; the smallest one is its inverse."""
        return (self.width - 2) << self.exponent_bits

    @property
    def bits(self) -> int:
        """Storage width."""
        return self.width

    @property
    def precision(self) -> int:
        """Near 1, where the regime has two bits."""
        return max(self.width - 3 - self.exponent_bits, 0) + 1

    @property
    def max_finite(self) -> Fraction:
        """The regime takes the whole code."""
        return power(self.scale)

    @property
    def min_subnormal(self) -> Fraction:
        """The inverse of the largest value."""
        return power(-self.scale)

    @property
    def unit_exponent(self) -> int:
        """Every value is a multiple of the smallest one: it has fewer bits the smaller it is."""
        return -self.scale

    @property
    def has_nan(self) -> bool:
        """NaR."""
        return True

    @property
    def can_saturate(self) -> bool:
        """Infinities are NaR otherwise."""
        return True

    def beyond(self, how: Rounding, negative: bool) -> Value:
        """The largest value, or its opposite."""
        return int((self.least if negative else self.max_finite) * (1 << POINT))

    @property
    def least(self) -> Fraction:
        """The opposite of the largest value."""
        return -self.max_finite

    @property
    def has_zero(self) -> bool:
        """Always."""
        return True

    def check_noise(self, bits: int) -> None:
        """Any number of them, behind the end of a code."""

    def decode(self, code: int) -> float:
        """Return the value of a code, NaN of NaR. Raises ValueError outside the codes."""
        check_code(self, code)
        negative, magnitude = code >> self.width - 1, code
        if negative:
            magnitude = (1 << self.width) - code
        if magnitude == 1 << self.width - 1:
            return math.nan
        if not magnitude:
            return 0.0
        rest = self.width - 1  # bits that are left
        ones = magnitude >> rest - 1
        run = 0
        while run < rest and magnitude >> rest - 1 - run & 1 == ones:
            run += 1
        rest = max(rest - run - 1, 0)
        regime = run - 1 if ones else -run
        tail = (magnitude & (1 << rest) - 1) << self.exponent_bits  # missing exponent bits are zeros
        exponent = (regime << self.exponent_bits) + (tail >> rest)
        size = math.ldexp((1 << rest) + (tail & (1 << rest) - 1), exponent - rest)
        return -size if negative else size

    def encode(self, value: float | Fraction) -> int:
        """Return the code of a value of this format. Raises ValueError when the format does not have it."""
        if isinstance(value, float) and not math.isfinite(value):
            if math.isnan(value):
                return 1 << self.width - 1
            raise ValueError(f"'{self.name}' has no {value}")
        size = abs(Fraction(value))
        code = self._code(int(size * (1 << POINT)), POINT, _EXACT, False, 0) if size else 0
        if Fraction(self.decode(code)) != size:
            raise ValueError(f"{value} is not a value of '{self.name}'")
        return (1 << self.width) - code if value < 0 else code

    def rounding(self, how: Rounding, point: int) -> Finite:
        """Return the rounding: that of the code, whose bits go on behind its end, to codes other than 0 and NaR."""

        def finite(x: int, noise: int) -> Value:
            code = self._code(abs(x), point, how, x < 0, noise)
            size = int(Fraction(self.decode(code)) * (1 << POINT))
            return -size if x < 0 else size

        return finite

    def _code(self, magnitude: int, point: int, how: Rounding, negative: bool, noise: int) -> int:
        """The code that ``magnitude * 2^-point``, which is not zero, is rounded to."""
        places = magnitude.bit_length() - 1  # of the fraction
        exponent = places - point
        regime = exponent >> self.exponent_bits
        # The whole code: ones and a zero, or zeros and a one; the rest of the exponent; the fraction.
        bits, length = ((2 << regime) - 1 << 1, regime + 2) if regime >= 0 else (1, 1 - regime)
        bits = bits << self.exponent_bits | exponent - (regime << self.exponent_bits)
        bits = bits << places | magnitude - (1 << places)
        drop = length + self.exponent_bits + places - (self.width - 1)
        kept = chosen_multiple(bits, drop, how, negative, noise) >> drop if drop > 0 else bits << -drop
        return max(1, min(kept, (1 << self.width - 1) - 1))

    def special(self, x: Value, how: Rounding, noise: int) -> Value:
        """Infinities are NaR, as NaN is, but where saturation is asked for."""
        if x == 0 or (x == x and how.overflow == "sat"):
            return 0 if x == 0 else self.beyond(how, x < 0)
        return math.nan


_POSIT = re.compile(r"posit(\d+)", re.ASCII)


def _read(name: str, sizes: Sequence[str] | None) -> Posit | None:
    if name == "posit" and sizes is not None:
        if len(sizes) not in (1, 2):
            raise NumcError("format 'posit(...)': want posit(n,es), the width and the exponent bits")
        return Posit(*(whole_number(size, "format 'posit(...)'") for size in sizes))
    match = _POSIT.fullmatch(name)
    return Posit(whole_number(match[1], f"format {quoted(name)}")) if match and sizes is None else None


KIND: Kind[Posit] = Kind(
    name="posits",
    formats={"posit8": Posit(8), "posit16": Posit(16)},
    read=_read,
    syntax="posit(n,es)",
    call="posit",
    example="posit(8,1)",
)
