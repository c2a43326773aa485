"""The sums of the dot products of groups: sizes, and one step; group_sums.py has the loops."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import Guard
from numc.passes.kernels.ssa import Value

_F32_BITS, _F32_LARGEST, _F32_LEAST = 24, 127, -149
STEPS = 32
"""A block of k without groups has a multiple of this many."""


@dataclass(frozen=True)
class Groups:
    """Groups along k of the operator `fma`; `width`: lanes of a vector; `tile`: accumulators of a tile.

    counts: the additions to accumulators can be counted (counting.py).
    """

    fma: Fma
    k_block: int
    width: int
    tile: int
    counts: bool = False

    @property
    def size(self) -> int:
        """Steps of k that are summed together."""
        return self.k_block if self.fma.group is None or self.fma.group.group is None else self.fma.group.group

    @property
    def is_integer(self) -> bool:
        """Whether sums are kept as integers until the reduction ends."""
        return self.fma.group is not None and self.fma.group.sums_integers

    @property
    def scales_sums(self) -> bool:
        """Whether elements are summed, and their sums multiplied by scales."""
        return self.fma.group is not None and self.fma.group.sums_elements

    @property
    def bits(self) -> int:
        """Significant bits that the exact sum of a group may take."""
        assert self.fma.groups is not None
        a, b = (c.format.most_units for c in self.fma.groups)
        return (self.size * a * b).bit_length()

    @property
    def rounds(self) -> bool:
        """Whether the steps of a group round: to 24 bits, where there are more and the kind does not sum exactly."""
        assert self.fma.group is not None
        return not self.scales_sums and not self.fma.group.sums_exactly and self.bits > _F32_BITS

    @property
    def guard(self) -> Guard | None:
        """When binary32 FMAs are exact, or None if they never are, or always."""
        assert self.fma.groups is not None
        if self.is_integer or self.scales_sums or (self.bits > _F32_BITS and not self.rounds):
            return None
        # The smallest magnitudes are the units of the groups: all products are multiples of products of units.
        return Guard(_F32_LARGEST, _F32_LEAST)

    def step(self, code: Code, a: Value, b: Value, c: Value, *, wide: bool) -> Value:
        """One step ``a * b + c`` from binary32 panels; `wide`: `c` is binary64."""
        if not wide:
            return code.fma(a, b, c)
        x, y = (code.cast("extf", v, "f64") for v in (a, b))
        total = code.binary("addf", code.binary("mulf", x, y), c)
        return _to_24_bits(code, total) if self.rounds else total

    def fits(self, count: int) -> bool:
        """Whether elements are integers of which a word holds `count`, and their sums over a group are 32-bit ones."""
        assert self.fma.groups is not None
        a, b = (c.format for c in self.fma.groups)
        if (
            self.scales_sums
            or self.fma.passes > 1
            or self.rounds
            or not max(a.most_units, b.most_units) < 1 << (32 // count - 1)
        ):
            return False
        # Units lie beside a row in whole vectors, or several in one; a word does not reach into the next group.
        places = self.size % count == 0 and (self.width % self.size == 0 or self.size % self.width == 0)
        return places and self.size * a.most_units * b.most_units < 1 << 31


def _to_24_bits(code: Code, x: Value) -> Value:
    """A binary64 number to nearest even at 24 significant bits; it has the exponents to spare."""
    bits = code.cast("bitcast", x, "i64")
    odd = code.binary("andi", code.binary("shrui", bits, code.int(29, "i64")), code.int(1, "i64"))
    half = code.binary("addi", code.int((1 << 28) - 1, "i64"), odd)
    kept = code.binary("andi", code.binary("addi", bits, half), code.int(-(1 << 29), "i64"))
    return code.cast("bitcast", kept, "f64")


def block_of_k(k_block: int, width: int, fma: Fma) -> int:
    """The size of a block of k: about `k_block` in whole groups or blocks of products, and in chunks if they fit."""
    unit = unit_of_k(fma, width)
    chunks = math.lcm(fma.datapath.chunk or 1, unit)
    if chunks <= k_block:
        unit = chunks
    return max(unit, k_block // unit * unit)


def unit_of_k(fma: Fma, width: int) -> int:
    """A size of which that of a block of k is a multiple: no group and no block of products is in two of them."""
    length = dict(fma.datapath.parameters).get("l", 1)
    if fma.group_length is not None:
        return math.lcm(fma.group_length, length, width)
    return math.lcm(length, STEPS)
