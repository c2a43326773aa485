"""Number formats: one frozen literal each, everything else derived (arithmetic.md section 2).

Values live in binary32; "x is in format F" means that rounding x to F gives x. A format says which values there are and
how they are encoded; a `Conversion` adds how a value gets into it. Rounding is defined in `reference/rounding.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from types import MappingProxyType

from numc.support.arguments import whole_number
from numc.support.errors import NumcError, quoted

ROUNDINGS = ("rne", "rtz", "rna", "rup", "rdn", "odd")
ROUNDING_SYNTAX = ", ".join(ROUNDINGS) + ", srN"
FORMAT_SYNTAX = "a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d"
MOST_RANDOM_BITS = 24  # a binary32 number has no more significant bits for them to decide about
_STOCHASTIC = re.compile(r"sr(\d*)(?:\.(\w+))?", re.ASCII)


@dataclass(frozen=True)
class Noise:
    """What stochastic rounding adds below the kept bits, before it truncates: a uniform integer of `bits` bits.

    lfsr: whether a linear feedback shift register supplies it; docs/arithmetic.md names and defines the generators.
    """

    bits: int
    lfsr: bool


@cache
def noise_of(rounding: str) -> Noise | None:
    """Return the noise of ``srN`` or ``srN.lfsr``, None for others. Raises NumcError for a bad N or generator."""
    match = _STOCHASTIC.fullmatch(rounding)
    if match is None:
        return None
    bits = whole_number(match[1] or "8", f"rounding {quoted(rounding)}")
    if not 1 <= bits <= MOST_RANDOM_BITS:
        raise NumcError(f"rounding {quoted(rounding)}: {bits} random bits, allowed are 1 to {MOST_RANDOM_BITS}")
    if match[2] not in (None, "lfsr"):
        raise NumcError(
            f"rounding {quoted(rounding)}: unknown generator {quoted(match[2])}, write sr{bits} or sr{bits}.lfsr"
        )
    return Noise(bits, match[2] == "lfsr")


def check_rounding(rounding: str, name: str) -> None:
    """Raise NumcError for a rounding of the format `name` that does not exist."""
    if rounding not in ROUNDINGS and noise_of(rounding) is None:
        raise NumcError(f"rounding {quoted(rounding)} of '{name}': allowed are {ROUNDING_SYNTAX}")


@dataclass(frozen=True)
class Format:
    """A sign, `exponent_bits` and `significand_bits` explicit bits, encoded as IEEE-754 encodes.

    subnormals: False means that values below ``2 ** emin`` become zero (``eXmYn``).
    finite: no infinities, the all-ones code is the only NaN (``eXmYfn``, OCP E4M3 style).
    parts: more than 1 means the unevaluated sum of that many numbers of the format (``bf16xN``).
    Two formats are equal when their values are, whatever they are called. Raises NumcError for sizes out of range.
    """

    name: str = field(compare=False)
    exponent_bits: int
    significand_bits: int
    subnormals: bool = True
    finite: bool = False
    parts: int = 1

    def __post_init__(self) -> None:
        # An 8-bit exponent without infinities would reach 2^128, which the binary32 carrier cannot hold.
        top = 7 if self.finite else 8
        if not 2 <= self.exponent_bits <= top:
            raise NumcError(
                f"format '{self.name}': {self.exponent_bits} exponent bits, allowed are 2 to {top}"
                + (" where there are no infinities" if self.finite else "")
            )
        if not 0 <= self.significand_bits <= 23:
            raise NumcError(f"format '{self.name}': {self.significand_bits} significand bits, allowed are 0 to 23")
        is_bf16 = (self.exponent_bits, self.significand_bits, self.subnormals, self.finite) == (8, 7, True, False)
        if self.parts not in ((1, 2, 3) if is_bf16 else (1,)):
            raise NumcError(f"format '{self.name}': {self.parts} parts, allowed are 1 to 3 of bf16, 1 of any other")

    @property
    def precision(self) -> int:
        """Significant bits, the hidden one included (of one part)."""
        return self.significand_bits + 1

    @property
    def bias(self) -> int:
        """What the exponent field has above the exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def emin(self) -> int:
        """The exponent of the smallest normal value."""
        return 1 - self.bias

    @property
    def emax(self) -> int:
        """The exponent of the largest finite value."""
        # The all-ones exponent field is for infinities and NaN; a finite format gives up only the all-ones code, which
        # is a whole binade where there are no significand bits.
        last = (1 << self.exponent_bits) - (1 if self.finite and self.significand_bits else 2)
        return last - self.bias

    @property
    def max_finite(self) -> Fraction:
        """The largest finite value; of a compound format, the largest sum of parts a rounding can give."""
        if self.parts > 1:  # half an ulp above the largest part is a tie that the first part rounds to infinity
            return _power(self.emax) * (2 - _power(-self.precision))
        ulp = _power(-self.significand_bits)
        return _power(self.emax) * (2 - (2 * ulp if self.finite and self.significand_bits else ulp))

    @property
    def min_normal(self) -> Fraction:
        """The smallest positive normal value."""
        return _power(self.emin)

    @property
    def min_subnormal(self) -> Fraction:
        """The smallest positive value; equal to `min_normal` where there are no subnormals."""
        return _power(self.emin - self.significand_bits) if self.subnormals else self.min_normal

    @property
    def bits(self) -> int:
        """Storage width, all parts together."""
        return self.parts * (1 + self.exponent_bits + self.significand_bits)

    def decode(self, code: int) -> float:
        """Return the value of an encoding; a float holds every one exactly. Raises ValueError outside the codes."""
        self._one_part()
        if not 0 <= code < 1 << self.bits:
            raise ValueError(f"code {code:#x} does not fit {self.bits} bits of '{self.name}'")
        fraction = code & ((1 << self.significand_bits) - 1)
        biased = code >> self.significand_bits & ((1 << self.exponent_bits) - 1)
        sign = -1.0 if code >> (self.bits - 1) else 1.0
        if biased == (1 << self.exponent_bits) - 1:
            if (self.finite and fraction == (1 << self.significand_bits) - 1) or (not self.finite and fraction):
                return math.nan
            if not self.finite:
                return sign * math.inf
        if biased == 0:
            return math.copysign(math.ldexp(fraction, self.emin - self.significand_bits) * self.subnormals, sign)
        return sign * math.ldexp((1 << self.significand_bits) + fraction, biased - self.bias - self.significand_bits)

    def encode(self, value: float | Fraction) -> int:
        """Return the encoding of a value of this format (NaN: the quiet one, all significand bits but the first clear).

        Raises ValueError when the format does not have the value: encoding does not round.
        """
        self._one_part()
        top = (1 << self.exponent_bits) - 1
        negative = math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0
        sign = int(negative) << (self.bits - 1)
        if isinstance(value, float) and not math.isfinite(value):
            if math.isnan(value):
                if self.finite:
                    return (1 << (self.bits - 1)) - 1
                if self.significand_bits:
                    return (top << self.significand_bits) | 1 << (self.significand_bits - 1)
            elif not self.finite:
                return sign | top << self.significand_bits
            raise ValueError(f"'{self.name}' has no {value}")
        magnitude = abs(Fraction(value))
        if magnitude == 0:
            return sign
        exponent = max(floor_log2(magnitude), self.emin)
        units = magnitude / _power(exponent - self.significand_bits)
        is_normal = magnitude >= self.min_normal
        if units.denominator != 1 or magnitude > self.max_finite or not (is_normal or self.subnormals):
            raise ValueError(f"{value} is not a value of '{self.name}'")
        if not is_normal:
            return sign | int(units)
        return sign | (exponent + self.bias) << self.significand_bits | int(units) - (1 << self.significand_bits)

    def _one_part(self) -> None:
        if self.parts > 1:
            raise ValueError(f"'{self.name}' has no encoding of its own: encode its parts")


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

    overflow: "" is the format's own (infinity; the largest value where there is none), "nan" gives NaN instead.
    open: None, or the widths that a run chooses; `format` is the widest one then.
    Raises NumcError for an unknown rounding and for combinations that mean nothing.
    """

    format: Format
    rounding: str = "rne"
    overflow: str = ""
    open: Open | None = None

    def __post_init__(self) -> None:
        check_rounding(self.rounding, self.format.name)
        if self.overflow not in ("", "nan"):
            raise NumcError(f"overflow '{self.overflow}' of '{self.format.name}': allowed is nan")
        if self.overflow and not self.format.finite:
            raise NumcError(f"'{self.format.name}:nan': only formats without infinities (eXmYfn) take ':nan'")
        if self.format.parts > 1 and self.rounding != "rne" and self.noise is None:
            raise NumcError(
                f"'{self.format.name}:{self.rounding}': the parts of a bf16xN round to nearest even, use rne or srN"
            )

    @property
    def noise(self) -> Noise | None:
        """The noise of a stochastic rounding, None for the others."""
        return noise_of(self.rounding)

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
        fmt = exmy(exponent, significand, subnormals=self.format.subnormals, finite=self.format.finite)
        return Conversion(fmt, self.rounding, self.overflow)

    def __str__(self) -> str:
        name, rounding = self.format.name, "" if self.rounding == "rne" else f":{self.rounding}"
        if self.open is not None:
            exponent, significand = (range_text(*each) for each in self.open.both)
            name = _sized_name(exponent, significand, self.format.subnormals, self.format.finite)
        return f"{name}{rounding}" + (f":{self.overflow}" if self.overflow else "")


def floor_log2(x: Fraction) -> int:
    """Return the exponent of a positive number: the largest e with ``2 ** e <= x``."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= _power(e) else e - 1


def _power(e: int) -> Fraction:
    return Fraction(1 << e) if e >= 0 else Fraction(1, 1 << -e)


# The accepted names. Format.name is the text the format is printed with: the same for every name of one set of values.
FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "fp32": Format("fp32", 8, 23),
        "tf32": Format("tf32", 8, 10),
        "bf16": Format("bf16", 8, 7),
        "bf16x2": Format("bf16x2", 8, 7, parts=2),
        "bf16x3": Format("bf16x3", 8, 7, parts=3),
        "fp16": Format("fp16", 5, 10),
        "fp8_e5m2": Format("e5m2", 5, 2),
        "fp8_e4m3": Format("e4m3fn", 4, 3, finite=True),
        "hfp8_fwd": Format("e4m3", 4, 3),
        "hfp8_bwd": Format("e5m2", 5, 2),
        "dlfloat16": Format("e6m9n", 6, 9, subnormals=False),
    }
)


def exmy(exponent: int, significand: int, *, subnormals: bool = True, finite: bool = False) -> Format:
    """Return the format with these widths, by its shortest name. Raises NumcError for widths that do not exist."""
    name = _sized_name(str(exponent), str(significand), subnormals, finite)
    fmt = Format(name, exponent, significand, subnormals, finite)
    return next((known for known in FORMATS.values() if known == fmt), fmt)


def _sized_name(exponent: str, significand: str, subnormals: bool, finite: bool) -> str:
    return f"e{exponent}m{significand}{'fn' if finite else '' if subnormals else 'n'}"
