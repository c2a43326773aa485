"""Contractions of operands with groups, defined (arithmetic.md, "Contractions of formats with groups")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from numc.numerics.exact.multiples import to_multiple
from numc.numerics.exact.value import ONE, POINT, PRODUCT_POINT, Value, exact_fma
from numc.numerics.formats.rounding import rounder
from numc.numerics.groups import GroupConversion, Noisy
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.groups import convert_row, largest_magnitude, parted_row, scaled_row
from numc.numerics.reference.random import PRODUCT, accumulator_draws

_TO_F32, _VALUE_TO_F32 = rounder(FP32, PRODUCT_POINT), rounder(FP32, POINT)

# What the elements of A, and of B, draw from: as if they were the accumulator's rounding and the product's.
PARTS = 0, PRODUCT


@dataclass(frozen=True)
class Source:
    """The source of random bits of a row or column: the stream of its operation, and the index of its first output.

    part: one of PARTS.
    """

    stream: int
    element: int
    part: int


NOWHERE = Source(0, 0, 0)


@dataclass(frozen=True)
class Vector:
    """One row of an operand along the reduction.

    largest: the largest magnitude of the whole operand, or of a channel. quantized: `values` are converted already.
    source: for a conversion that draws. scales: of `quantized` elements, what those of each group are multiplied by.
    """

    values: Sequence[Value]
    to: GroupConversion
    largest: Value
    quantized: bool = False
    source: Source = NOWHERE
    scales: Sequence[Value] = ()

    @cached_property
    def converted(self) -> list[Value]:
        """The factors of a sum of groups: values of the format, or integers where it sums integers."""
        if self.quantized and self.to.format.sums_integers:
            return [v >> POINT if type(v) is int else 0 for v in self.values]
        return convert_row(self._noisy, self.to, self.largest, sums=True)

    @cached_property
    def parted(self) -> Sequence[tuple[Sequence[Value], Value]]:
        """The elements of groups, and what they are multiplied by, where a sum of groups multiplies these."""
        return self._as_given if self.quantized else parted_row(self._noisy, self.to, self.largest)

    @cached_property
    def scaled(self) -> Sequence[tuple[Sequence[Value], Value]]:
        """The elements of groups, and their scales, where blocks of products take these apart."""
        return self._as_given if self.quantized else scaled_row(self._noisy, self.to, self.largest)

    @property
    def _as_given(self) -> Sequence[tuple[Sequence[Value], Value]]:
        size = self.to.format.group or max(len(self.values), 1)
        starts = range(0, len(self.values), size)
        return [(self.values[k : k + size], scale) for k, scale in zip(starts, self.scales, strict=True)]

    @cached_property
    def parts(self) -> list[tuple[Value, ...]]:
        """The values of the format in binary32, as an operator multiplies them whose other operand has no groups."""
        if self.quantized:
            return [(value,) for value in self.values]
        values = convert_row(self._noisy, self.to, self.largest, sums=False)
        return [(_VALUE_TO_F32(value),) for value in values]

    @property
    def _noisy(self) -> list[Noisy]:
        return list(zip(self.values, self._noise(), strict=True))

    def _noise(self) -> list[int]:
        if self.to.noise is None:
            return [0] * len(self.values)
        of = self.source
        return accumulator_draws(of.stream, of.element, np.arange(len(self.values)), self.to.noise, of.part)

    @property
    def scale(self) -> Value:
        """Where integers are summed, a binary32 number; NaN if the operand has an infinity or a NaN."""
        return self.to.format.shared(self.largest)


def largest_of(values: Sequence[Value], to: GroupConversion) -> Value:
    """The largest magnitude of an operand; the largest finite one where the conversion depends on that."""
    return largest_magnitude(values, finite=to.format.finite_only)


def group_dot(op: Fma, a: Vector, b: Vector, c: Value) -> Value:
    """One element of a contraction, from the binary32 number `c`."""
    assert op.group is not None
    if op.group.sums_integers:
        return _int_dot(op, a, b, c) if a.converted else c
    if op.group.sums_elements:
        return _scaled_dot(a, b, c)
    x, y = a.converted, b.converted
    size = op.group.group or max(len(x), 1)
    for begin in range(0, len(x), size):
        c = add_group(op, x[begin : begin + size], y[begin : begin + size], c)
    return c


def add_group(op: Fma, x: Sequence[Value], y: Sequence[Value], c: Value) -> Value:
    """The dot product of one group of converted values, added to the binary32 number `c`."""
    assert op.group is not None
    total = (_exact_dot if op.group.sums_exactly else _chain)(x, y)
    return _TO_F32(exact_fma(_TO_F32(total), ONE, c)) if type(total) is int else total


def _products(x: Sequence[Value], y: Sequence[Value]) -> list[int] | None:
    """Exact products, in quanta of 2^-PRODUCT_POINT; None where a value is NaN (converted ones are never infinite)."""
    pairs = list(zip(x, y, strict=True))
    if any(v != v for pair in pairs for v in pair):
        return None
    return [v * w if type(v) is int and type(w) is int else 0 for v, w in pairs]


def _exact_dot(x: Sequence[Value], y: Sequence[Value]) -> Value:
    products = _products(x, y)
    return float("nan") if products is None else sum(products)


def _chain(x: Sequence[Value], y: Sequence[Value]) -> Value:
    """FMAs that round to 24 bits, to nearest even, and have all the exponents they need."""
    products = _products(x, y)
    if products is None:
        return float("nan")
    total = 0
    for product in products:
        total += product
        shift = abs(total).bit_length() - FP32.format.precision
        if shift > 0:
            rounded = to_multiple(abs(total), shift, "rne", total < 0)
            total = rounded if total > 0 else -rounded
    return total


def _scaled_dot(a: Vector, b: Vector, c: Value) -> Value:
    """Sums of elements, each a chain of binary32 FMAs, times the scales of their groups: one binary32 FMA for each."""
    for (x, of_x), (y, of_y) in zip(a.parted, b.parted, strict=True):
        total: Value = 0
        for pair in zip(x, y, strict=True):
            total = _TO_F32(exact_fma(*pair, total))
        c = _TO_F32(exact_fma(total, _TO_F32(exact_fma(of_x, of_y, -0.0)), c))
    return c


def _int_dot(op: Fma, a: Vector, b: Vector, c: Value) -> Value:
    products = [int(x) * int(y) for x, y in zip(a.converted, b.converted, strict=True)]
    if op.datapath.name != "int":
        return scaled_integer(sum(products), a.scale, b.scale, c)
    total, length = 0, op.datapath["l"]
    for k in range(0, len(products), length):
        total = add_integers(op, total, products[k : k + length])
    return scaled_integer(total, a.scale, b.scale, c)


def scaled_integer(total: int, of_a: Value, of_b: Value, c: Value) -> Value:
    """A sum of products of integers, times the scales of their tensors, added to the binary32 number `c`."""
    factor = _TO_F32(exact_fma(of_a, of_b, -0.0))
    return _TO_F32(exact_fma(_TO_F32(total << PRODUCT_POINT), factor, c))


def add_integers(op: Fma, total: int, products: Sequence[int]) -> int:
    """Products added to an accumulator of so many bits, in two's complement."""
    bound = 1 << op.datapath["bits"] - 1
    total += sum(products)
    if op.datapath["saturate"]:
        total = max(-bound, min(total, bound - 1))
    return (total + bound) % (2 * bound) - bound
