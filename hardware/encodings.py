"""Codes of single values, as hardware has them on its wires, and the exact values that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from numc.numerics.exact.value import POINT, Value, from_bits, to_float
from numc.numerics.formats import FORMATS, Conversion, Format, Record
from numc.numerics.formats.rounding import parts_of

_LISTED = 16  # codes of so many bits are remembered, each with its value


@dataclass(frozen=True)
class Encoding:
    """The codes of a format. Those of a compound number are the codes of its parts, the first unit lowest."""

    format: Format

    @property
    def bits(self) -> int:
        """Of one code."""
        return self.format.bits

    @property
    def part(self) -> Format:
        """The format of one part."""
        return self.format.part

    def decode(self, code: int) -> Value:
        """Return the value of a code."""
        if self.format.parts == 1:
            return _value(self.format, code)
        width, first = self.part.bits, _value(self.part, code & (1 << self.part.bits) - 1)
        if type(first) is not int or not first:
            return first
        rest = (_value(self.part, code >> n * width & (1 << width) - 1) for n in range(1, self.format.parts))
        return first + sum(int(value) for value in rest)

    def encode(self, value: Value) -> int | None:
        """Return the code of a value of the format; None for a NaN that has no code."""
        if value != value and not self.part.has_nan:
            return None
        parts = parts_of(value, self.format)
        return sum(_code(self.part, part) << n * self.part.bits for n, part in enumerate(parts))

    def split(self, value: Value) -> tuple[Value, ...]:
        """Return the parts of a value."""
        return parts_of(value, self.format)


def _value(fmt: Format, code: int) -> Value:
    if fmt == FORMATS["fp32"]:
        return from_bits(code)
    return _listed_value(fmt, code) if fmt.bits <= _LISTED else _quanta(fmt.decode(code))


def _code(fmt: Format, value: Value) -> int:
    if fmt.bits <= _LISTED:
        return _listed_code(fmt, value, math.copysign(1, value) < 0)
    return fmt.encode(to_float(value))


@cache
def _listed_value(fmt: Format, code: int) -> Value:
    return _quanta(fmt.decode(code))


@cache
def _listed_code(fmt: Format, value: Value, _negative: bool) -> int:
    """`_negative` tells the two zeros apart, which are equal."""
    return fmt.code_of_nan() if value != value else fmt.encode(to_float(value))


def _quanta(value: float) -> Value:
    if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
        return value
    return int(math.ldexp(value, POINT))


def neighbours_of_boundaries(to: Conversion) -> list[int]:
    """Codes of magnitudes at which the encoding of a record changes: subnormals, powers of two, the largest value."""
    fmt = to.format
    if not isinstance(fmt, Record) or fmt.parts > 1:
        return list(range(1 << fmt.bits)) if fmt.bits <= 8 else []
    unit, last = 1 << fmt.significand_bits, fmt.largest_code
    around = {0, 1, 2, 3, last, last - 1, last - 2, unit, unit - 1, unit - 2, unit + 1}
    for power in range(unit, last, unit):
        around |= {power, power - 1, power + 1}
    return sorted(code for code in around if 0 <= code <= last)
