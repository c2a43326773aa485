"""A group of an operand in a circuit, and what kinds of groups make of its codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numc.hardware.circuits.exact_real import Real
from numc.numerics.circuits import Whole, field, select
from numc.numerics.formats import Format


@dataclass(frozen=True)
class Group:
    """Integers in units of 2^exponent.

    factor: what a sum of elements is multiplied by in binary32; elements: these numbers, where a sum rounds.
    shifted: the numbers of which the integers are, in units of 2^unit, where their significands are much shorter.
    """

    integers: Sequence[Whole]
    exponent: Whole
    nan: Whole
    factor: Real | None = None
    elements: Sequence[Real] = ()
    shifted: Sequence[Real] = ()
    unit: int = 0


def products_of(x: Group, y: Group) -> list[Whole]:
    """The products of the integers of two groups: of short significands, shifted behind their multiplication."""
    if not x.shifted or not y.shifted:
        return [i * j for i, j in zip(x.integers, y.integers, strict=True)]
    made: list[Whole] = []
    for i, j in zip(x.shifted, y.shifted, strict=True):
        size = i.significand * j.significand << i.exponent + j.exponent - (x.unit + y.unit)
        made.append(select(i.sign ^ j.sign, -size, size))
    return made


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
