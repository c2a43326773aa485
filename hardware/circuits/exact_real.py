"""An exact real number in a circuit: its sign, significand and exponent are numbers of the circuit."""

from __future__ import annotations

from dataclasses import dataclass

from numc.numerics.circuits import Whole, absolute, within


@dataclass(frozen=True)
class Real:
    """The number (-1)^sign * significand * 2^exponent, an infinity of its sign, or NaN.

    least: what is known of small ones: pairs of bits that a significand has at least, if it is not zero, and of the
    exponent that one with so few bits can have at least; a rounding needs to see no further below than that. One bit is
    that of a subnormal number, whose exponent is this; 0 bits are one bit, too, at any exponent.
    """

    sign: Whole
    exponent: Whole
    significand: Whole
    nan: Whole = 0
    infinite: Whole = 0
    least: tuple[tuple[int, int], ...] = ()

    @property
    def bits(self) -> int:
        """The width of a significand."""
        return high(self.significand).bit_length()

    @property
    def special(self) -> Whole:
        """Whether it is no number."""
        return self.nan | self.infinite

    @property
    def is_zero(self) -> Whole:
        """Whether it is a zero; an infinity and a NaN are none."""
        return (self.significand == 0) & (self.special ^ 1)


def low(x: Whole) -> int:
    """The least value of a number of a circuit."""
    return x if isinstance(x, int) else x.low


def high(x: Whole) -> int:
    """The greatest value of a number of a circuit."""
    return x if isinstance(x, int) else x.high


def magnitude(x: Whole) -> Whole:
    """The magnitude of a number of a circuit, which is from 0 up."""
    return within(absolute(x), 0, max(high(x), -low(x)))
