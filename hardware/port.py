"""A port of a circuit: codes side by side, and the numbers that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numc.numerics.exact.value import Value

Codes = Mapping[str, tuple[int, ...]]
"""The codes of each port, the first product's first."""
Read = Callable[[Codes], tuple[list[Value], Value]]
"""Reads the elements of an operand's group from the ports, and their scale where it stands apart."""
SIGN_AND_MAGNITUDE = "a sign above a magnitude"
"""The codes of a port that are neither those of a format nor two's complement."""
TOP_BITS = 9  # of an exponent of binary32, subnormals included, in two's complement


@dataclass(frozen=True)
class Port:
    """`count` codes of `bits` bits side by side, the first one lowest. holds: what they are codes of."""

    name: str
    bits: int
    holds: str
    count: int = 1

    @property
    def width(self) -> int:
        """All codes together."""
        return self.bits * self.count

    def joined(self, codes: tuple[int, ...]) -> int:
        """Return codes as one number."""
        return sum(code << n * self.bits for n, code in enumerate(codes))

    def divided(self, number: int) -> tuple[int, ...]:
        """The inverse of `joined`."""
        return tuple(number >> n * self.bits & (1 << self.bits) - 1 for n in range(self.count))


def signed(code: int, bits: int) -> int:
    """Return a code in two's complement as a number."""
    return code - (code >> bits - 1 << bits)


def with_sign(size: int, negative: int) -> Value:
    """Return a magnitude with a sign; a zero can have one."""
    return (-size or -0.0) if negative else size


def times_power(value: Value, power: int) -> Value:
    """Return a value times a power of two; elements below the smallest quantum are cut, as conversions make none."""
    if isinstance(value, float):
        return value
    return value << power if power >= 0 else -(-value >> -power) if value < 0 else value >> -power
