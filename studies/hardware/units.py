"""The units that multiply, which of them computes an operator, and the cycles that a contraction takes on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from numc.numerics.formats import Format, Record
from numc.numerics.kinds import GROUP_FORMATS
from numc.numerics.operators import Fma
from numc.numerics.policy.layer import Layer
from numc.studies.hardware.area import bf16_products, passes


@dataclass(frozen=True)
class Work:
    """A contraction for a unit: b products of (m, k) by (k, n).

    steps: of the unit for one pair of values, or of groups of them. wgrad: whether the result is the gradient of a
    weight, with m outputs of the layer. conv: whether it is a convolution, with b groups of channels.
    """

    b: int
    m: int
    n: int
    k: int
    steps: int = 1
    wgrad: bool = False
    conv: bool = False

    @classmethod
    def of(cls, layer: Layer, steps: int) -> Work:
        """Return the work of a contraction without free sizes; the operator's A has the rows m."""
        b, m, n, k = (size or 0 for size in layer.sizes.values())
        if layer.swapped:
            m, n = n, m
        return cls(b, m, n, k, steps, layer.role == "wgrad", layer.kind == "conv")

    def dense(self) -> Work:
        """Return the work without groups of channels: one product, which is mostly zeros (sparse im2col)."""
        if not self.conv:
            return self
        m, k = (self.m * self.b, self.k) if self.wgrad else (self.m, self.k * self.b)
        return replace(self, b=1, m=m, n=self.n * self.b, k=k)


@dataclass(frozen=True)
class Units:
    """Units that work by themselves.

    count: how many steps start in one cycle. latency: the cycles until a result can be used. values: the pairs of
    values that one step multiplies.
    """

    count: int
    latency: int
    values: int = 1

    def cycles(self, work: Work) -> dict[str, int]:
        """Return the cycles by what limits them; the order of accumulation makes a chain of the steps of a result."""
        chain = work.steps * math.ceil(work.k / self.values)
        return {
            "compute": math.ceil(work.b * work.m * work.n * chain / self.count),
            "latency": chain * self.latency,
        }


@dataclass(frozen=True)
class Array:
    """A systolic array.

    rows, columns: of its cells. values: the pairs of values that a cell multiplies in a step. milliwatts, area: power,
    and area relative to an fMAC, of the cells that multiply 16 pairs in a step; None if unknown.
    """

    rows: int
    columns: int
    values: int = 1
    milliwatts: float | None = None
    area: float | None = None

    @property
    def count(self) -> int:
        """The number of cells, each of which starts a step in every cycle."""
        return self.rows * self.columns

    def cycles(self, work: Work) -> dict[str, int]:
        """Return the cycles, with the time to fill the array for each tile; loading weights is hidden.

        The weights of a forward pass and of a dgrad stay in the cells, outputs in the rows and the reduction in the
        columns. A wgrad stays in the cells itself. The tiling is numc's choice: FAST does not say it.
        """
        work, fill = work.dense(), self.rows + self.columns - 2
        if work.wgrad:
            tiles = math.ceil(work.m / self.rows) * math.ceil(work.n / self.columns)
            steps = math.ceil(work.k / self.values)
        else:
            tiles = math.ceil(work.k / (self.values * self.columns)) * math.ceil(work.n / self.rows)
            steps = work.m
        return {"compute": work.b * tiles * (steps * work.steps + fill)}


def _fits(exponent_bits: int, significand_bits: int) -> Callable[[Fma], int | None]:
    """Operands of single values with at most so many bits; a step for each product."""

    def steps(fma: Fma) -> int | None:
        for fmt in (fma.a.format, fma.b.format):
            if not isinstance(fmt, Record) or not fmt.is_usual:
                return None
            if fmt.exponent_bits > exponent_bits or fmt.significand_bits > significand_bits:
                return None
        return fma.products

    return steps


def _integers(bits: int) -> Callable[[Fma], int | None]:
    def steps(fma: Fma) -> int | None:
        formats = [conversion.format for conversion in fma.groups or ()]
        return 1 if formats and all(fmt.sums_integers and fmt.group_bits(1) <= bits for fmt in formats) else None

    return steps


def _narrower_than_fp32(fma: Fma) -> int | None:
    both = all(isinstance(fmt, Format) and fmt.bits == 32 for fmt in (fma.a.format, fma.b.format))
    return None if both else _fits(8, 23)(fma)


def _msfp12(fma: Fma) -> int | None:
    both = fma.a.format == fma.b.format == GROUP_FORMATS["msfp12"]
    return 1 if both and fma.datapath.name != "fmac2" else None


UNITS: Mapping[str, Callable[[Fma], int | None]] = MappingProxyType(
    {
        "msfp12": _msfp12,
        "fmac": lambda fma: passes(fma.a.format, fma.b.format),
        "int8": _integers(8),
        "int12": _integers(12),
        "hfp8": _fits(5, 3),
        "bf16": lambda fma: bf16_products(fma) or None,
        "fp16": _fits(5, 10),
        "vf32": _narrower_than_fp32,
        "fp32": _fits(8, 23),
    }
)
"""The steps of a unit for an FMA, or None if it does not compute the operator; the first of a machine's that does is
taken."""
