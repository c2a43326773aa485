"""Fixed point: multiples of a power of two between two bounds, in two's complement or without a sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from numc.numerics.exact.multiples import chosen_multiple
from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats.format import Finite, Format, check_code, check_range, power
from numc.numerics.formats.kind import Kind
from numc.numerics.roundings import Rounding
from numc.support.arguments import whole_number
from numc.support.errors import NumcError

if TYPE_CHECKING:
    from numc.numerics.codes import Codes
    from numc.numerics.float_arrays import F32Array


@dataclass(frozen=True)
class Fixed(Format):
    """Multiples of ``2 ** -fraction_bits`` below ``2 ** integer_bits``, from minus that on, or from 0 without a sign.

    There are no infinities and no NaN, and a zero has no sign. Raises NumcError for sizes out of range.
    """

    integer_bits: int
    fraction_bits: int
    signed: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.integer_bits + self.fraction_bits <= 23 or self.integer_bits > 127:
            raise NumcError(
                f"format '{self.name}': {self.integer_bits} integer and {self.fraction_bits} fraction bits, "
                "want 1 to 23 together"
            )
        check_range(self)

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        return f"{'fixed' if self.signed else 'ufixed'}({self.integer_bits},{self.fraction_bits})"

    @property
    def bits(self) -> int:
        """A sign, if there is one, and the bits of the magnitude."""
        return self.signed + self.precision

    @property
    def precision(self) -> int:
        """Of the largest values."""
        return self.integer_bits + self.fraction_bits

    @property
    def max_finite(self) -> Fraction:
        """One unit below the power of two."""
        return power(self.integer_bits) - self.min_subnormal

    @property
    def min_subnormal(self) -> Fraction:
        """One unit."""
        return power(-self.fraction_bits)

    @property
    def unit_exponent(self) -> int:
        """Of the unit."""
        return -self.fraction_bits

    @property
    def least(self) -> Fraction:
        """Two's complement has one negative value more."""
        return -power(self.integer_bits) if self.signed else Fraction(0)

    def decode(self, code: int) -> float:
        """Return the value of a code. Raises ValueError outside the codes."""
        check_code(self, code)
        negative = self.signed and code >> self.bits - 1
        return math.ldexp(code - (1 << self.bits if negative else 0), -self.fraction_bits)

    def encode(self, value: float | Fraction) -> int:
        """Return the code of a value of this format. Raises ValueError when the format does not have it."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"'{self.name}' has no {value}")
        units = Fraction(value) / self.min_subnormal
        if units.denominator != 1 or not self.least <= value <= self.max_finite:
            raise ValueError(f"{value} is not a value of '{self.name}'")
        return int(units) & (1 << self.bits) - 1

    def encode_array(self, x: F32Array) -> Codes:
        """Return the codes of values of the format. Raises NumcError for a NaN."""
        import numpy as np

        if np.isnan(x).any():
            self.code_of_nan()
        units = np.ldexp(x.astype(np.float64), self.fraction_bits)
        codes: Codes = units.astype(np.int64) & (1 << self.bits) - 1
        return codes

    def decode_array(self, codes: Codes) -> F32Array:
        """Return the values of codes."""
        import numpy as np

        from numc.numerics.codes import signed_codes

        units = signed_codes(codes, self.bits) if self.signed else codes.astype(np.float64)
        values: F32Array = np.ldexp(units, -self.fraction_bits).astype(np.float32)
        return values

    @property
    def has_zero(self) -> bool:
        """Always."""
        return True

    def check_noise(self, bits: int) -> None:
        """Any number of them: all values have one distance."""

    def beyond(self, how: Rounding, negative: bool) -> Value:
        """The bounds."""
        return int((self.least if negative else self.max_finite) * (1 << POINT))

    def rounding(self, how: Rounding, point: int) -> Finite:
        """Return the rounding to multiples of the unit, between the bounds."""
        shift, drop = point - self.fraction_bits, point - POINT
        least, largest = (int(v * (1 << point)) for v in (self.least, self.max_finite))

        def finite(x: int, noise: int) -> Value:
            magnitude = chosen_multiple(abs(x), shift, how, x < 0, noise)
            return max(least, min(-magnitude if x < 0 else magnitude, largest)) >> drop

        return finite


def _read(name: str, sizes: Sequence[str] | None) -> Fixed | None:
    if name not in ("fixed", "ufixed") or sizes is None:
        return None
    if len(sizes) != 2:
        raise NumcError(f"format '{name}(...)': want {name}(i,f), integer and fraction bits")
    integer_bits, fraction_bits = (whole_number(size, f"format '{name}(...)'") for size in sizes)
    return Fixed(integer_bits, fraction_bits, signed=name == "fixed")


KIND: Kind[Fixed] = Kind(
    name="fixed point",
    formats={},
    read=_read,
    syntax="fixed(i,f), ufixed(i,f)",
    call="fixed",
    example="fixed(3,4)",
)
