"""A port of a circuit: codes side by side, and the numbers that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numc.hardware.encodings import Encoding
from numc.numerics.exact.value import Value
from numc.numerics.operators import Fma

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


@dataclass(frozen=True)
class Interface:
    """One step of an operator on codes.

    products: how many it takes. Ports `a` and `b` hold the operands, `c` the accumulator, `u` and `v` the random bits
    of the accumulator's and of the product's rounding where these draw, and `d` is the new accumulator.
    evaluate: the exact products and the value of the accumulator become the value of the new one, by the definition.
    register: its bits, if the accumulator is a whole number in two's complement. ending: what multiplies the sum at the
    end of a reduction: the scales of tensors; finish: the value of the result, of that of the initial accumulator, of
    the sum, and of the codes of these ports. A reduction with a register or such ports begins at 0.
    """

    op: Fma
    products: int
    inputs: tuple[Port, ...]
    output: Port
    evaluate: Callable[[Codes], Value]
    register: int = 0
    ending: tuple[Port, ...] = ()
    finish: Callable[[Value, Value, Codes], Value] | None = None

    @property
    def begins_at_zero(self) -> bool:
        """Whether the initial accumulator enters a reduction at its end."""
        return bool(self.register or self.ending)

    @property
    def start(self) -> Port:
        """The accumulator that a whole reduction begins with; its result has the same format."""
        return Port("c", self.op.acc.format.bits, self.op.acc.format.name)

    @property
    def operands(self) -> tuple[Port, ...]:
        """The inputs of steps that hold A and B, with the scales of their groups."""
        return tuple(port for port in self.inputs if port.name[0] in "ab")

    def expected(self, codes: Codes) -> int | None:
        """Return the code of the result; None for a NaN for which the accumulator has no code."""
        return self.code(self.evaluate(codes))

    def code(self, value: Value) -> int | None:
        """Return the code of an accumulator."""
        if self.register:
            return int(value) & (1 << self.register) - 1
        return Encoding(self.op.acc.format).encode(value)

    def port(self, name: str) -> Port:
        """Return an input by its name."""
        return next(port for port in self.inputs if port.name == name)
