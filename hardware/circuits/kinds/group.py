"""A group of an operand in a circuit, and what kinds of groups make of its codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numc.hardware.circuits.reals import Real
from numc.numerics.circuits import Whole, field, select
from numc.numerics.formats import Format


@dataclass(frozen=True)
class Group:
    """Integers in units of 2^exponent.

    factor: what a sum of elements is multiplied by in binary32; elements: these numbers, where a sum rounds.
    """

    integers: Sequence[Whole]
    exponent: Whole
    nan: Whole
    factor: Real | None = None
    elements: Sequence[Real] = ()


def fields(codes: Whole, bits: int, length: int) -> list[Whole]:
    """The codes of a group, the first one lowest."""
    return [field(codes, n * bits, bits) for n in range(length)]


def signed(code: Whole, bits: int) -> Whole:
    """The number of a code in two's complement."""
    return code - (field(code, bits - 1, 1) << bits)


def integer(x: Real, fmt: Format) -> Whole:
    """A finite element in the units of its format."""
    size = x.significand << x.exponent - fmt.unit_exponent
    return select(x.sign, -size, size)
