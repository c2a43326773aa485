"""A conversion: a format of single values, and how numbers get into it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numc.numerics.formats.format import Format
from numc.numerics.formats.kinds.record import Record
from numc.numerics.roundings import Noise, Rounding, check_rounding, noise_of
from numc.support.errors import NumcError

OVERFLOWS = ("nan", "sat")


@dataclass(frozen=True)
class Open:
    """Widths that every run of a program chooses: the least and the most exponent bits, and significand bits.

    The significand bits of block floating point are its magnitude bits. A pair of equal numbers is a width that is not
    open.
    """

    exponent: tuple[int, int]
    significand: tuple[int, int]

    @property
    def both(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The ranges of exponent and significand bits."""
        return self.exponent, self.significand


def range_text(least: int, most: int) -> str:
    """Return a range of widths as formats write it."""
    return str(most) if least == most else f"{least}..{most}"


@dataclass(frozen=True)
class Conversion:
    """A format and how values are rounded into it; ``str`` gives the text that parses back to it.

    overflow: "" is the format's own (infinity; the largest value where there is none), "nan" gives NaN instead, "sat"
    the largest value instead, of infinities too.
    open: None, or the widths that a run chooses; `format` is the widest one then.
    Raises NumcError for an unknown rounding and for combinations that mean nothing.
    """

    format: Format
    rounding: str = "rne"
    overflow: str = ""
    open: Open | None = None

    def __post_init__(self) -> None:
        check_rounding(self.rounding, self.format.name)
        if self.noise is not None:
            self.format.check_noise(self.noise.bits)
        name, infinities = self.format.name, self.format.has_infinities
        if self.overflow not in ("", *OVERFLOWS):
            raise NumcError(f"overflow '{self.overflow}' of '{name}': want {' or '.join(OVERFLOWS)}")
        if self.overflow == "nan" and infinities:
            raise NumcError(f"'{name}:nan': only formats without infinities (eXmYfn) take ':nan'")
        if self.overflow == "nan" and not self.format.can_overflow_to_nan:
            raise NumcError(f"'{name}:nan': the format has no NaN to overflow to, leave ':nan' out")
        if self.overflow == "sat" and not self.format.can_saturate:
            raise NumcError(f"'{name}:sat': only formats of one part with infinities take ':sat', leave it out")
        if self.format.parts > 1 and self.rounding != "rne" and self.noise is None:
            raise NumcError(
                f"'{self.format.name}:{self.rounding}': the parts of a number round to nearest even, use rne or srN"
            )

    @property
    def noise(self) -> Noise | None:
        """The noise of a stochastic rounding, None for the others."""
        return noise_of(self.rounding)

    @property
    def saturates(self) -> bool:
        """Whether what is beyond the largest value becomes that value."""
        return self.overflow == "sat" or (not self.overflow and not self.format.has_infinities)

    @property
    def how(self) -> Rounding:
        """Its rounding, as kinds of formats take it."""
        bits = 0 if self.noise is None else self.noise.bits
        return Rounding(self.rounding, bits, self.saturates, self.overflow)

    @property
    def settled(self) -> Conversion:
        """A conversion without noise that leaves the values of the format as they are: this one, or to nearest even."""
        return self if self.noise is None else replace(self, rounding="rne")

    @property
    def least_range(self) -> Format:
        """The format; of open widths the one with the smallest largest value."""
        return self.format if self.open is None else self.at(*(least for least, _ in self.open.both)).format

    def at(self, exponent: int, significand: int) -> Conversion:
        """Return the conversion that a run with these widths computes; itself if its widths are not open."""
        if self.open is None:
            return self
        assert isinstance(self.format, Record)
        return Conversion(self.format.resized(exponent, significand), self.rounding, self.overflow)

    def __str__(self) -> str:
        same = self.rounding == self.format.default_rounding
        name, rounding = self.format.name, "" if same else f":{self.rounding}"
        if self.open is not None:
            assert isinstance(self.format, Record)
            exponent, significand = (range_text(*each) for each in self.open.both)
            name = self.format.sized_name(exponent, significand)
        return f"{name}{rounding}" + (f":{self.overflow}" if self.overflow else "")
