"""Real numbers of a definition: operands, exact products and sums of them, and what is rounded.

A definition is written once, over `Real`. Called with `Known` numbers (known.py) it computes, exactly; called with
`Traced` ones (traced.py) it leaves a graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from numc.numerics.circuits.number import Whole, here
from numc.numerics.formats import Conversion
from numc.support.errors import NumcError, quoted


class Real(ABC):
    """A number of a format, or an exact real number; with an infinity, a NaN or the sign of a zero where IEEE has it.

    to: the format that it is a number of; None if it is exact. A number of a format with p significant bits is
    ``(-1)^sign * significand * 2^(exponent - (p - 1))``. Its exponent is at least the format's least one, so that a
    subnormal number has a significand below 2^(p-1), as in hardware. Zeros, infinities and NaN have significand 0 and
    the least exponent.
    """

    to: Conversion | None

    @property
    @abstractmethod
    def sign(self) -> Whole:
        """1 if it is negative, -0 too, else 0; 0 of a NaN."""

    @property
    @abstractmethod
    def exponent(self) -> Whole:
        """The exponent of the highest bit of its significand."""

    @property
    @abstractmethod
    def significand(self) -> Whole:
        """Its magnitude as a whole number, of at most p bits."""

    @property
    @abstractmethod
    def code(self) -> Whole:
        """Its encoding in the format; of a NaN that has none, that of a zero."""

    @property
    @abstractmethod
    def is_nan(self) -> Whole:
        """1 if it is a NaN, else 0."""

    @property
    @abstractmethod
    def is_infinite(self) -> Whole:
        """1 if it is an infinity, else 0."""

    @property
    @abstractmethod
    def is_zero(self) -> Whole:
        """1 if it is a zero, else 0."""

    @abstractmethod
    def made(self, op: str, *args: Real) -> Real:
        """Return the exact ``product`` or ``sum`` of this number and another."""

    @abstractmethod
    def rounded(self, to: Conversion) -> Real:
        """Return it rounded to a format."""

    def __mul__(self, other: Real | float) -> Real:
        return self.made("product", self, self._real(other))

    def __rmul__(self, other: float) -> Real:
        return self.made("product", self._real(other), self)

    def __add__(self, other: Real | float) -> Real:
        return self.made("sum", self, self._real(other))

    def __radd__(self, other: float) -> Real:
        return self.made("sum", self._real(other), self)

    def __sub__(self, other: Real | float) -> Real:
        return self + (-self._real(other))

    def __rsub__(self, other: float) -> Real:
        return self._real(other) + (-self)

    def __neg__(self) -> Real:
        return self.made("product", self, self._real(-1.0))

    def __truediv__(self, other: object) -> Real:
        raise NumcError(f"{here()}: a division of real numbers: want * with a constant, or lookup(values, index)")

    __rtruediv__ = __truediv__

    def __eq__(self, other: object) -> bool:
        raise NumcError(
            f"{here()}: a comparison of real numbers: want one of their sign, exponent, significand or code, or is_zero"
        )

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = object.__hash__

    def _real(self, value: object) -> Real:
        if isinstance(value, Real):
            return value
        if isinstance(value, int | float):
            return self.constant(float(value))
        raise NumcError(f"{here()}: {type(value).__name__} with a real number: want scaled(n, 0) of a whole number")

    @abstractmethod
    def constant(self, value: float) -> Real:
        """Return a float of Python as a number of the same kind."""

    def _format(self, what: str) -> Conversion:
        if self.to is None:
            raise NumcError(f"{here()}: the {what} of an exact number, want rounded(x, format).{what}")
        return self.to


def checked(to: Conversion, what: str) -> Conversion:
    """Return a conversion that a definition rounds to. Raises NumcError for one that takes more than the number."""
    if to.format.parts > 1 or to.open is not None or to.noise is not None:
        raise NumcError(
            f"{here()}: {what} {quoted(to)}, want a format of one part and of fixed widths, without random bits"
        )
    return to
