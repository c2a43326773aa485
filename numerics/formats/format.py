"""Formats of single values: what a kind of them is (arithmetic.md, "Formats").

Values live in binary32; "x is in format F" means that rounding x to F gives x. A format says which values there are,
how they are encoded and which neighbour a number is rounded to; a `Conversion` names the rounding. The kinds are in
`kinds/`; docs/adding-a-kind-of-format.md makes another one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from numc.numerics.exact.value import POINT, Value
from numc.numerics.roundings import Rounding
from numc.support import notebook
from numc.support.errors import NumcError, shortened

if TYPE_CHECKING:  # numpy is imported only where there are arrays: the name of a format has no need of it
    from numc.numerics.codes import Codes
    from numc.numerics.float_arrays import F32Array

# Rounds an integer that counts 2^-point and is not zero; the second argument is what a stochastic rounding draws.
Finite = Callable[[int, int], Value]
MOST_LISTED_BITS = 16
"""The values of formats of up to so many bits can be listed."""
_MOST_DRAWN_BITS = 8
"""A notebook shows a stroke for each value of a format of up to so many bits."""


class Format(ABC):
    """One format of single values. Each kind is a frozen dataclass in `kinds/`.

    A kind says its name, its bits and what its codes mean. All else follows from the list of its values, unless it says
    that in a shorter way: zeros have no signs, there are neither infinities nor NaN, and what is beyond all values
    becomes the nearest one.
    """

    if TYPE_CHECKING:  # a field of some kinds, which a property of the base would take for its default

        @property
        def name(self) -> str:
            """The text that parses back to the format."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Storage width, all parts together."""

    @property
    def fields(self) -> tuple[tuple[str, int], ...]:
        """The fields of a code, the highest first, each with its bits."""
        return (("code", self.bits),)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the bits of a code, ranges, and the values if they are few."""
        known = {
            "significand bits": self.precision if self.parts == 1 else f"{self.parts} x {self.precision}",
            "largest": _power_text(self.max_finite),
            "smallest normal" if self.is_gradual else "smallest": _power_text(self.min_normal),
            "smallest subnormal": _power_text(self.min_subnormal) if self.is_gradual else "",
            "zeros": "+0, -0" if self.has_minus_zero else "0" if self.has_zero else "none",
            "not finite": " and ".join(["infinities"] * self.has_infinities + ["NaN"] * self.has_nan) or "nothing",
        }
        parts = notebook.fields(self.fields), notebook.facts(known), self.number_line()
        return notebook.card(self.name, *parts, about=f"format of {self.bits} bits")

    def number_line(self, most: Fraction | None = None) -> str:
        """Return a picture of the values, those up to a magnitude `most` alone, as HTML; "" for a format of many."""
        if self.bits > _MOST_DRAWN_BITS:
            return ""
        return notebook.line_of([float(value) for value, _ in listed(self) if most is None or abs(value) <= most])

    @abstractmethod
    def decode(self, code: int) -> float:
        """Return the value of a code, NaN of one that has none. Raises ValueError outside the codes."""

    # Values.

    @property
    def parts(self) -> int:
        """More than 1: values are unevaluated sums of that many numbers."""
        return 1

    @property
    def part(self) -> Format:
        """The format of one part of a value; where values have one part, the format."""
        return self

    @property
    def signed(self) -> bool:
        """Whether there are negative values."""
        return self.least < 0

    @property
    def precision(self) -> int:
        """The most significant bits that a value has (of one part)."""
        return _extremes(self).precision

    @property
    def max_finite(self) -> Fraction:
        """The largest finite magnitude of a value."""
        return _extremes(self).most

    @property
    def least(self) -> Fraction:
        """The smallest value, of those with a sign the most negative one."""
        return listed(self)[0][0]

    @property
    def min_subnormal(self) -> Fraction:
        """The smallest magnitude that is not zero."""
        return _extremes(self).smallest

    @property
    def min_normal(self) -> Fraction:
        """The smallest positive value of full precision, where a format has such."""
        return self.min_subnormal

    @property
    def unit_exponent(self) -> int:
        """An exponent of two that every value is a multiple of."""
        return _extremes(self).unit_exponent

    @property
    def emin(self) -> int:
        """The exponent of the smallest normal value."""
        return floor_log2(self.min_normal)

    @property
    def emax(self) -> int:
        """The exponent of the largest finite value."""
        return floor_log2(self.max_finite)

    @property
    def is_usual(self) -> bool:
        """Whether signs, zeros and exponents are those of IEEE-754: what fast sequences of machine code know."""
        return False

    @property
    def is_full_range(self) -> bool:
        """Whether it is usual, and has the exponents of binary32, so that a rounding only cuts bits off."""
        return False

    @property
    def is_gradual(self) -> bool:
        """Whether the distance of values stays the same below the smallest normal one, down to zero."""
        return False

    @property
    def has_zero(self) -> bool:
        """Whether zero is a value."""
        return any(not value for value, _ in listed(self))

    @property
    def has_minus_zero(self) -> bool:
        """Whether zeros have signs."""
        return False

    @property
    def has_infinities(self) -> bool:
        """Whether what is beyond the largest value becomes an infinity; otherwise it becomes that value."""
        return False

    @property
    def has_nan(self) -> bool:
        """Whether a NaN has a code; without one it stays NaN in arithmetic, and cannot be packed."""
        return False

    @property
    def can_overflow_to_nan(self) -> bool:
        """Whether a conversion can be told so."""
        return False

    @property
    def can_saturate(self) -> bool:
        """Whether infinities are something else than the largest value, so that a conversion can ask for that."""
        return False

    @property
    def default_rounding(self) -> str:
        """The rounding of a text without one."""
        return "rne"

    # Codes.

    def encode(self, value: float | Fraction) -> int:
        """Return the encoding of a value of this format, of NaN that which numc writes.

        Raises ValueError when the format does not have the value: encoding does not round.
        """
        code = _codes(self).get(Fraction(value)) if math.isfinite(value) else None
        if code is None:
            raise ValueError(f"{value} is not a value of '{shortened(self.name)}'")
        return code

    def code_of_nan(self) -> int:
        """Return the code that numc writes for a NaN. Raises NumcError for a format that has none."""
        if not self.has_nan:
            raise NumcError(f"x has a NaN, which '{shortened(self.name)}' has no encoding for: use a format with a NaN")
        return self.encode(math.nan)

    def encode_array(self, x: F32Array) -> Codes:
        """Return the codes of values of the format. Raises NumcError for a NaN of a format that has none."""
        import numpy as np

        values, codes = _arrays(self)
        is_nan = np.isnan(x)
        nearest: Codes = codes[np.minimum(np.searchsorted(values, x), len(values) - 1)]
        return np.where(is_nan, self.code_of_nan(), nearest) if is_nan.any() else nearest

    def decode_array(self, codes: Codes) -> F32Array:
        """Return the values of codes."""
        return _decoded(self)[codes]

    # Rounding, in exact integers.

    def rounding(self, how: Rounding, point: int) -> Finite:
        """Return what rounds ``x * 2^-point`` for an integer x to one of the two values around it.

        x is not zero where zero is a value.
        """
        ordered = [(int(value * (1 << point)), code) for value, code in listed(self)]
        sizes = [size for size, _ in ordered]

        def finite(x: int, noise: int) -> Value:
            index = bisect_left(sizes, x)
            if index == len(sizes) or sizes[index] == x or index == 0:
                size = sizes[min(index, len(sizes) - 1)]
            else:
                below, above = ordered[index - 1], ordered[index]
                if how.random_bits:
                    up = _reaches(x, below[0], above[0], how.random_bits, noise)
                else:
                    up = _goes_up(how.name, x, below, above)
                size = sizes[index] if up else sizes[index - 1]
            return size >> point - POINT

        return finite

    def special(self, x: Value, how: Rounding, noise: int) -> Value:
        """Return what a zero of either sign, an infinity or a NaN is rounded to."""
        if x != x:
            return math.nan
        if x == 0:
            if not self.has_zero:  # it is a number like others
                return self.rounding(how, POINT)(0, noise)
            return x if self.has_minus_zero else 0
        return self.beyond(how, x < 0)

    def beyond(self, how: Rounding, negative: bool) -> Value:
        """Return what an infinity becomes, and what is beyond the values of the format."""
        return int(listed(self)[0 if negative else -1][0] * (1 << POINT))

    def check_noise(self, bits: int) -> None:
        """Raise NumcError if machine code cannot round with so many random bits.

        Between listed values it adds parts of their distances in binary64, where the sums, and their neighbours, have
        to be exact.
        """
        for (below, _), (above, _) in pairwise(listed(self)):
            unit = min(map(_unit_exponent, (below, above)))
            if max(abs(below), above) * power(bits - unit) >= 1 << 52:
                raise NumcError(
                    f"'{shortened(self.name)}:sr{bits}': {float(below)} and {float(above)} are too far apart, want "
                    f"neighbours with {52 - bits} bits between the ends of both"
                )


def _power_text(value: Fraction) -> str:
    """Return a magnitude; one below 1 that is a power of two is shown as such, too."""
    down = value.denominator.bit_length() - 1
    exact = value.numerator == 1 and down and value.denominator == 1 << down
    return f"2^-{down} = {float(value):.6g}" if exact else f"{float(value):.6g}"


@cache
def listed(fmt: Format) -> list[tuple[Fraction, int]]:
    """The finite values of a format of few bits in ascending order, with their codes; a zero once.

    Raises NumcError for more bits.
    """
    return sorted(_codes(fmt).items())


@dataclass(frozen=True)
class _Extremes:
    """Of the values of a format: the most significant bits, the largest and the smallest magnitude, the finest unit."""

    precision: int
    most: Fraction
    smallest: Fraction
    unit_exponent: int


@cache
def _extremes(fmt: Format) -> _Extremes:
    values = [abs(value) for value, _ in listed(fmt)]
    return _Extremes(
        max(map(_significant_bits, values)), max(values), min(filter(None, values)), min(map(_unit_exponent, values))
    )


@cache
def _codes(fmt: Format) -> dict[Fraction, int]:
    every = ((value, code) for code, value in reversed(list(enumerate(_values(fmt)))))
    return {Fraction(value): code for value, code in every if math.isfinite(value)}


@cache
def _arrays(fmt: Format) -> tuple[F32Array, Codes]:
    import numpy as np

    values, codes = zip(*listed(fmt), strict=True)
    return np.array(list(map(float, values)), np.float32), np.array(codes, np.int64)


@cache
def _decoded(fmt: Format) -> F32Array:
    import numpy as np

    return np.array(_values(fmt), np.float32)


def _values(fmt: Format) -> list[float]:
    if fmt.bits > MOST_LISTED_BITS:
        raise NumcError(f"format '{shortened(fmt.name)}': codes of {fmt.bits} bits, want at most {MOST_LISTED_BITS}")
    return [fmt.decode(code) for code in range(1 << fmt.bits)]


def _goes_up(rounding: str, x: int, below: tuple[int, int], above: tuple[int, int]) -> bool:
    """Whether a number between two values, given with their codes, becomes the one above it.

    A tie goes to the value with the even code, and to the one with the smaller code where not one of both is even. The
    odd one is taken in the same way, or the one toward zero; and the nearest one where zero lies between them.
    """
    (low, code), (high, next_code) = below, above
    alike, middle = (code ^ next_code) & 1 == 0, low + high
    if rounding in ("rup", "rdn"):
        return rounding == "rup"
    if rounding == "odd" and not alike:
        return bool(next_code & 1)
    if rounding in ("rtz", "odd") and low * high >= 0:
        return x < 0
    if 2 * x != middle:
        return 2 * x > middle
    if rounding == "rna":
        return x >= 0
    return next_code < code if alike else not next_code & 1


def _reaches(x: int, below: int, above: int, bits: int, noise: int) -> bool:
    """Whether a stochastic rounding goes up: by the part of the way to the value away from zero, cut to `bits` bits."""
    away = above - x if x < 0 else x - below
    goes_away = (away << bits) // (above - below) + noise >= 1 << bits
    return goes_away != (x < 0)


def check_code(fmt: Format, code: int) -> None:
    """Raise ValueError for what is no code of a format."""
    if not 0 <= code < 1 << fmt.bits:
        raise ValueError(f"code {code:#x} does not fit {fmt.bits} bits of '{fmt.name}'")


def check_range(fmt: Format) -> None:
    """Raise NumcError for a format with values that no binary32 number is."""
    if fmt.max_finite >= 1 << 128:
        raise NumcError(f"format '{fmt.name}': values up to 2^{fmt.emax}, but float32 ends below 2^128")
    if fmt.unit_exponent < -149:
        raise NumcError(
            f"format '{fmt.name}': multiples of 2^{fmt.unit_exponent}, but float32 numbers are multiples of 2^-149"
        )


def _unit_exponent(value: Fraction) -> int:
    """The exponent of two that a value is a multiple of, and 0 for whole numbers."""
    return 1 - value.denominator.bit_length()


def _significant_bits(value: Fraction) -> int:
    numerator = abs(value.numerator)
    return (numerator // (numerator & -numerator)).bit_length() if numerator else 1


def floor_log2(x: Fraction) -> int:
    """Return the exponent of a positive number: the largest e with ``2 ** e <= x``."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= power(e) else e - 1


def power(e: int) -> Fraction:
    """Return ``2 ** e``."""
    return Fraction(1 << e) if e >= 0 else Fraction(1, 1 << -e)
