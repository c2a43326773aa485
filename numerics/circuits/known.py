"""Numbers that are known: a definition that is called with them computes exactly, in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

from numc.numerics.circuits.real import Real
from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import Conversion
from numc.numerics.formats.format import floor_log2, power
from numc.numerics.formats.rounding import round_real


class Known(Real):
    """A number: a fraction, or one of the floats -0.0, the infinities and NaN."""

    def __init__(self, value: Fraction | float, to: Conversion | None) -> None:
        self.to = to
        plain = isinstance(value, Fraction) or (math.isfinite(value) and not _is_minus_zero(value))
        self.value = Fraction(value) if plain else value

    @staticmethod
    def counted(value: Value, to: Conversion) -> Known:
        """Return a binary32 number, as exact/value.py counts it, of a format."""
        return Known(Fraction(value, 1 << POINT) if isinstance(value, int) else value, to)

    def __repr__(self) -> str:
        return f"<{self.value}{'' if self.to is None else f' in {self.to.format.name}'}>"

    @property
    def sign(self) -> int:
        """1 if it is negative, -0 too, else 0; 0 of a NaN."""
        negative = self.value < 0 if isinstance(self.value, Fraction) else math.copysign(1.0, self.value) < 0
        return int(negative and not self.is_nan)

    @property
    def exponent(self) -> int:
        """The exponent of the highest bit of its significand."""
        fmt = self._format("exponent").format
        return max(floor_log2(self._magnitude), fmt.emin) if self._magnitude else fmt.emin

    @property
    def significand(self) -> int:
        """Its magnitude as a whole number, of at most p bits."""
        fmt = self._format("significand").format
        multiple = self._magnitude / power(self.exponent - fmt.precision + 1)
        assert multiple.denominator == 1
        return multiple.numerator

    @property
    def code(self) -> int:
        """Its encoding in the format."""
        fmt = self._format("code").format
        return fmt.encode(0.0 if self.is_nan and not fmt.has_nan else float(self.value))

    @property
    def is_nan(self) -> int:
        """1 if it is a NaN, else 0."""
        return int(self.value != self.value)

    @property
    def is_infinite(self) -> int:
        """1 if it is an infinity, else 0."""
        return int(not isinstance(self.value, Fraction) and math.isinf(self.value))

    @property
    def is_zero(self) -> int:
        """1 if it is a zero, else 0."""
        return int(self.value == 0)

    @property
    def _magnitude(self) -> Fraction:
        """Its magnitude; 0 of infinities and NaN."""
        return abs(self.value) if isinstance(self.value, Fraction) else Fraction(0)

    def made(self, op: str, *args: Real) -> Known:
        """Return the exact ``product`` or ``sum`` of this number and another."""
        x, y = (each.value for each in args if isinstance(each, Known))
        if isinstance(x, Fraction) and isinstance(y, Fraction):
            exact = x * y if op == "product" else x + y
            if exact or op == "sum" or (x >= 0) == (y >= 0):
                return Known(exact, None)
        stand_in = _stand_in(x) * _stand_in(y) if op == "product" else _stand_in(x) + _stand_in(y)
        if op == "sum" and math.isfinite(stand_in) and (x != 0 or y != 0):
            return Known(Fraction(x) + Fraction(y), None)
        return Known(stand_in, None)

    def rounded(self, to: Conversion) -> Known:
        """Return it rounded to a format."""
        return Known(round_real(self.value, to), to)

    def constant(self, value: float) -> Known:
        """Return a float of Python as a number of the same kind."""
        return Known(value, None)


def _is_minus_zero(value: float) -> bool:
    return value == 0 and math.copysign(1.0, value) < 0


def _stand_in(value: Fraction | float) -> float:
    """A float with the sign and the class of a number: products and sums of them follow the rules of IEEE-754."""
    return float((value > 0) - (value < 0)) if isinstance(value, Fraction) else value
