"""Formats of groups of values that share a scale: one frozen literal each (arithmetic.md section 2).

A group is a run of `group` neighbours along one axis of a tensor (the last run may be short), or the whole tensor where
`group` is None. Every value is a small signed number, an element, times the scale of its group, and the value
that results is exact or rounded to binary32 once. Converting takes the tensor, not one value: hence `GroupConversion`
beside `Conversion`. The definition of the conversions is in `reference/groups.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from numc.compiler.arithmetic.formats import Noise, check_rounding, floor_log2, noise_of
from numc.compiler.support.errors import NumcError

CHUNK = 2  # magnitude bits that are stored, and multiplied, together (FAST's fMAC)


@dataclass(frozen=True)
class Bfp:
    """Block floating point: `group` values share an exponent E; a value is sign * M * 2^(E - (magnitude_bits - 1)).

    0 <= M < 2^magnitude_bits, no hidden bit. E is stored in `exponent_bits`, as its distance from the bottom of a
    window whose top is the largest E of the tensor. Raises NumcError for sizes out of range.
    """

    group: int
    exponent_bits: int
    magnitude_bits: int

    def __post_init__(self) -> None:
        if self.group < 1:
            raise NumcError(f"format '{self.name}': groups of {self.group} values, allowed are 1 or more")
        if not 1 <= self.exponent_bits <= 8:
            raise NumcError(
                f"format '{self.name}': {self.exponent_bits} exponent bits, allowed are 1 to 8 (float32 itself has 8)"
            )
        if not 1 <= self.magnitude_bits <= 23:
            raise NumcError(
                f"format '{self.name}': {self.magnitude_bits} magnitude bits, "
                "allowed are 1 to 23 (a float32 holds 24, and needs no group)"
            )

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        return f"bfp({self.group},{self.exponent_bits},{self.magnitude_bits})"

    @property
    def default_rounding(self) -> str:
        """Truncation, as FAST converts weights and activations."""
        return "rtz"

    @property
    def precision(self) -> int:
        """Significant bits of an element."""
        return self.magnitude_bits

    @property
    def largest(self) -> int:
        """The largest M."""
        return (1 << self.magnitude_bits) - 1

    @property
    def window(self) -> int:
        """How many exponents below the largest one of the tensor a group can have."""
        return (1 << self.exponent_bits) - 1

    @property
    def chunks(self) -> int:
        """How many times a group is stored, with CHUNK magnitude bits each."""
        return -(-self.magnitude_bits // CHUNK)

    @property
    def bits_per_value(self) -> Fraction:
        """Storage of a full group, divided by its size: each chunk repeats the exponent and the signs."""
        return Fraction(self.chunks * (self.exponent_bits + self.group * (1 + CHUNK)), self.group)


@dataclass(frozen=True)
class Mx:
    """OCP Microscaling (MX) v1.0: blocks share a power of two (E8M0), elements are small floats or integers.

    exponent_bits: of an element; 0 is a two's complement integer of 2^-significand_bits (INT8).
    largest: the largest finite element, which says how many of the highest codes are no numbers.
    """

    exponent_bits: int
    significand_bits: int
    largest: Fraction

    @property
    def group(self) -> int:
        """The block size, the same for all of MX v1.0."""
        return 32

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        if not self.exponent_bits:
            return f"mxint{self.element_bits}"
        return f"mxfp{self.element_bits}_e{self.exponent_bits}m{self.significand_bits}"

    @property
    def default_rounding(self) -> str:
        """The rounding that the specification requires to exist."""
        return "rne"

    @property
    def precision(self) -> int:
        """Significant bits of an element."""
        return self.significand_bits + 1

    @property
    def emin(self) -> int:
        """The exponent of the smallest normal element; below it, and in integers, the step is the same everywhere."""
        return 2 - (1 << (self.exponent_bits - 1)) if self.exponent_bits else 0

    @property
    def emax(self) -> int:
        """The exponent of the largest element."""
        return floor_log2(self.largest)

    @property
    def element_bits(self) -> int:
        """Storage of an element: a sign, the exponent (in an integer: the bit of the ones), the significand."""
        return 1 + max(self.exponent_bits, 1) + self.significand_bits

    @property
    def bits_per_value(self) -> Fraction:
        """Storage of a full block, divided by its size."""
        return self.element_bits + Fraction(SCALE_BITS, self.group)


SCALE_BITS = 8  # E8M0: 2^(code - 127), all ones is NaN
SCALE_BIAS = 127


@dataclass(frozen=True)
class Int:
    """Uniform symmetric quantisation of a tensor: s = max abs / (2^(bits-1) - 1), a value is s times an integer.

    Raises NumcError for sizes out of range.
    """

    bits: int

    @property
    def group(self) -> None:
        """The whole tensor."""
        return None

    def __post_init__(self) -> None:
        if not 4 <= self.bits <= 16:
            raise NumcError(f"format '{self.name}': {self.bits} bits, allowed are 4 to 16")

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        return f"int{self.bits}"

    @property
    def default_rounding(self) -> str:
        """To nearest even."""
        return "rne"

    @property
    def precision(self) -> int:
        """Significant bits of an element."""
        return self.bits - 1

    @property
    def largest(self) -> int:
        """The largest integer; the smallest is its opposite."""
        return (1 << (self.bits - 1)) - 1

    @property
    def bits_per_value(self) -> Fraction:
        """Storage of an integer; the scale of the tensor is not counted."""
        return Fraction(self.bits)


GroupFormat = Bfp | Mx | Int


def shares_tensor(fmt: GroupFormat) -> bool:
    """Whether conversions depend on the whole tensor: on its largest exponent (bfp) or its largest magnitude (intN)."""
    return not isinstance(fmt, Mx)


@dataclass(frozen=True)
class GroupConversion:
    """A grouped format and how elements are rounded; ``str`` gives the text that parses back to it.

    channel: of intN as an operand of a contraction, a scale for each of its rows or columns, not one for the tensor.
    Raises NumcError for an unknown rounding, and for channels of another format.
    """

    format: GroupFormat
    rounding: str
    channel: bool = False

    def __post_init__(self) -> None:
        if self.channel and not isinstance(self.format, Int):
            raise NumcError(f"'{self.format.name}:channel': only intN has scales that channels can have of their own")
        check_rounding(self.rounding, self.format.name)

    @property
    def noise(self) -> Noise | None:
        """The noise of a stochastic rounding, None for the others."""
        return noise_of(self.rounding)

    def __str__(self) -> str:
        rounding = "" if self.rounding == self.format.default_rounding else f":{self.rounding}"
        return f"{self.format.name}{rounding}" + (":channel" if self.channel else "")

    def of_tensors(self) -> GroupConversion:
        """Return the conversion itself where it means something outside of contractions. Raises NumcError."""
        if self.channel:
            raise NumcError(f"'{self}': channels are those of a contraction's operands, leave ':channel' out")
        return self


# The accepted names, besides bfp(g,e,m) and intN.
GROUP_FORMATS: Mapping[str, GroupFormat] = MappingProxyType(
    {
        "msfp12": Bfp(16, 8, 3),
        "lowbfp": Bfp(16, 3, 2),
        "midbfp": Bfp(16, 3, 3),
        "highbfp": Bfp(16, 3, 4),
        "mxfp8": Mx(4, 3, Fraction(448)),
        "mxfp8_e4m3": Mx(4, 3, Fraction(448)),
        "mxfp8_e5m2": Mx(5, 2, Fraction(57344)),
        "mxfp6": Mx(2, 3, Fraction(15, 2)),
        "mxfp6_e3m2": Mx(3, 2, Fraction(28)),
        "mxfp6_e2m3": Mx(2, 3, Fraction(15, 2)),
        "mxfp4": Mx(2, 1, Fraction(6)),
        "mxfp4_e2m1": Mx(2, 1, Fraction(6)),
        "mxint8": Mx(0, 6, Fraction(127, 64)),
        "int4": Int(4),
        "int8": Int(8),
        "int12": Int(12),
        "int16": Int(16),
    }
)
