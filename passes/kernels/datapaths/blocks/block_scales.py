"""The datapath ``fused`` on operands with groups, whose scales are multiplied inside of the sum of a block.

Panels hold elements, and behind them the scales of groups (packing/layout.py). What is said of exact products in
fused.py holds for products of two elements, or sums of them, and two scales. What tensors are scaled by multiplies the
whole sum: it begins with +0, behind the accumulators of a tile, and is added to these at the end of the reduction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from numc.numerics.formats import Conversion
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.blocks import cut_integers
from numc.passes.kernels.datapaths.blocks.alignment import (
    NOWHERE,
    cut,
    cut_scale,
    exact_product,
    exponent_of,
    largest_exponents,
)
from numc.passes.kernels.datapaths.blocks.fused import cut_accumulators, exponents_at_least, rounded_totals
from numc.passes.kernels.datapaths.blocks.products import Products
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Drawn, Guard, Micro, Segment
from numc.passes.kernels.datapaths.reads import scales
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.values.carrier import F32
from numc.passes.kernels.values.kinds import code_of

#: Appends what products that share scales make of values: given these products and the scales of rows and lanes.
Step = Callable[[Products, list[Value], list[Value], Sequence[Value]], list[Value]]


def limits(s: Setting) -> Guard | None:
    """When a block is exact in 32-bit integers; None for operators that this does not serve.

    The smallest products are those of the smallest scales and elements, and the products of scales are normal numbers.
    """
    if not _serves(s):
        return None
    least = sum(to.format.unit_exponent for to in s.fma.factors)
    guard = cut_integers.cut_guard(s.fma)
    return replace(guard, product=max(guard.product - least, -126))


def _serves(s: Setting) -> bool:
    """Whether the scales of a block are powers of two, one for each operand, and integers serve the elements."""
    path, formats = s.fma.datapath, [to.format.scales for to in s.fma.groups or ()]
    if any(
        to.format.holds_scales for to in s.fma.groups or ()
    ):  # the largest word of a group is not its largest magnitude
        return False
    if s.fma.shares_tensor or path["run"] or any(fmt is None or fmt.precision > 1 for fmt in formats):
        return False
    return (
        path["l"] <= (s.fma.group_length or 1)
        and path["least"] <= cut_integers.least_product(s.fma)
        and cut_integers.serves(s.fma)
    )


def _around(f: Function, s: Setting) -> AbstractContextManager[None]:
    return cut_integers.around(f, s) if _serves(s) else nullcontext()


def _state(s: Setting) -> int:
    return 1 if s.fma.shares_tensor else 0


def _sums_at(m: Micro) -> list[Value]:
    """Where the sums of a tile are."""
    behind = m.setting.accumulators * _state(m.setting)
    return [m.code.at(m.f["tile"], behind + offset) for offset in m.places]


def _enter(m: Micro, segment: Segment) -> Accumulators:
    return [m.code.load(at) for at in _sums_at(m)]


def _leave(m: Micro, segment: Segment, values: Accumulators) -> None:
    for at, value in zip(_sums_at(m), values, strict=True):
        m.code.store(value, at)


def _walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """A loop over blocks."""
    f, length = m.f, m.setting.fma.datapath["l"]
    with f.carry(first, end, length, values) as loop:
        last = f.i64("minsi", f.i64("addi", loop.index, length), end)
        if m.fast:
            loop.next = _block_of_integers(m, loop.index, last, loop.values)
        else:
            loop.next = block(m.code, m.setting.fma, _Looped(m, loop.index, last), loop.values, m.drawn(loop.index))
    return loop.results


def _block_of_integers(m: Micro, first: Value, end: Value, sums: Accumulators) -> Accumulators:
    """A block, which is in one group."""
    rows, lanes = _scales_of(m, first)
    powers = [m.code.binary("mulf", row, lane) for row in rows for lane in lanes]
    return cut_integers.block(m, Products(m.setting.fma.datapath["l"], m, first, end), sums, powers)


def _scales_of(m: Micro, k: Value) -> tuple[list[Value], list[Value]]:
    """The scales of the group of step `k`."""
    group = m.setting.fma.group_length
    assert group is not None
    return scales(m, m.f.i64("divui", k, group))


class Shares(ABC):
    """The products of a block, in runs that share scales or are a term together, of every accumulator."""

    @property
    @abstractmethod
    def formats(self) -> tuple[Conversion, Conversion]:
        """Those of the scales of rows and of lanes."""

    @abstractmethod
    def fold(self, starts: Sequence[Value], step: Step) -> list[Value]:
        """Append `step` for one run after the other, which takes a value for each accumulator from `starts` on."""


@dataclass(frozen=True)
class _Looped(Shares):
    """Those of a micro-kernel, from step `first` up to `end`: a loop."""

    m: Micro
    first: Value
    end: Value

    @property
    def formats(self) -> tuple[Conversion, Conversion]:
        rows, lanes = (scale_format(self.m.setting.groups_of(side)) for side in ("rows", "lanes"))
        return rows, lanes

    def fold(self, starts: Sequence[Value], step: Step) -> list[Value]:
        m, f, size = self.m, self.m.f, run_of_shares(self.m.setting.fma)
        with f.carry(self.first, self.end, size, starts) as loop:
            last = f.i64("minsi", f.i64("addi", loop.index, size), self.end)
            loop.next = step(Products(size, m, loop.index, last), *_scales_of(m, loop.index), loop.values)
        return loop.results


def run_of_shares(fma: Fma) -> int:
    """The number of successive products of a block that share scales, or are a term together."""
    return fma.datapath["run"] or min(fma.datapath["l"], fma.group_length or 1)


def scale_format(to: GroupConversion) -> Conversion:
    """The format of the scales of groups."""
    assert to.format.scales is not None
    return Conversion(to.format.scales)


def block(code: Code, fma: Fma, shares: Shares, sums: Accumulators, drawn: Sequence[Drawn]) -> Accumulators:
    """Append a block in binary64: the largest exponent, then terms that are cut and added."""
    bits = fma.datapath["bits"]
    tops = shares.fold(exponents_at_least(code, fma, sums), _higher(code, fma, shares.formats))
    quanta = [cut_scale(code, top, bits) for top in tops]

    def more(products: Products, rows: list[Value], lanes: list[Value], totals: Sequence[Value]) -> list[Value]:
        rows, lanes = ([code.cast("extf", scale, "f64") for scale in each] for each in (rows, lanes))
        factors = [code.binary("mulf", row, lane) for row in rows for lane in lanes]
        factors = [code.binary("mulf", each, quantum) for each, quantum in zip(factors, quanta, strict=True)]
        if not fma.datapath["run"]:

            def add(n: int, total: Value, a: Parts, b: Parts) -> Value:
                return code.binary("addf", total, cut(code, exact_product(code, a, b), factors[n]))

            return products.fold(totals, add)
        terms = zip(_sums_of_elements(code, fma, products, len(totals)), factors, strict=True)
        return [code.binary("addf", x, cut(code, *term)) for x, term in zip(totals, terms, strict=True)]

    totals = shares.fold(cut_accumulators(code, sums, quanta), more)
    return rounded_totals(code, fma, tops, totals, drawn)


def _higher(code: Code, fma: Fma, formats: tuple[Conversion, Conversion]) -> Step:
    """The step that finds the largest exponent of the terms of every accumulator (i32)."""

    def bits_of(n: int, bits: Value, a: Parts, b: Parts) -> Value:
        product = code.cast("bitcast", code.binary("mulf", a[0], b[0]), "i32")
        return code.binary("ori", bits, code.binary("andi", product, code.int(F32.sign - 1)))

    def higher(products: Products, rows: list[Value], lanes: list[Value], tops: Sequence[Value]) -> list[Value]:
        of_rows, of_lanes = (
            [exponent_of(code, scale, to) for scale in each] for to, each in zip(formats, (rows, lanes), strict=True)
        )
        exponents = [code.binary("addi", row, lane) for row in of_rows for lane in of_lanes]
        if fma.datapath["run"]:
            # A sum that is zero has an exponent, but not one of zeros.
            bits = products.fold([code.int(0)] * len(tops), bits_of)
            own = [code.select(code.compare("ne", x, code.int(0)), code.int(0), code.int(NOWHERE)) for x in bits]
        else:
            own = largest_exponents(code, fma, products, [code.int(NOWHERE)] * len(tops))
        each = [code.binary("addi", x, e) for x, e in zip(own, exponents, strict=True)]
        return [code.binary("maxsi", top, e) for top, e in zip(tops, each, strict=True)]

    return higher


def _sums_of_elements(code: Code, fma: Fma, products: Products, count: int) -> list[Value]:
    """The exact sums of products of elements, in binary64; they are added in binary32 where that has them."""
    units = fma.datapath["run"]
    for to in fma.factors:
        units *= int(to.format.max_finite / to.format.min_subnormal)
    if units >> F32.significand_bits + 1 == 0:
        totals = products.fold([code.f32(0.0)] * count, lambda n, total, a, b: code.fma(a[0], b[0], total))
        return [code.cast("extf", total, "f64") for total in totals]
    return products.fold(
        [code.f64(0.0)] * count, lambda n, total, a, b: code.binary("addf", total, exact_product(code, a, b))
    )


def finish(s: Setting, name: str) -> str:
    """The function that ends a reduction: D = C + S * RN(scale * scale), one binary32 FMA, by the scales of tensors.

    Its arguments: the tile, and the largest magnitudes of rows and lanes. There is none where no tensor has a scale.
    """
    if not s.fma.shares_tensor:
        return ""
    f = Function(name, {"tile": PTR, "rows": "i32", "lanes": "i32"})
    tensors = [code_of(s.groups_of(side)).shared(f.scalar, f[side]) for side in ("rows", "lanes")]
    row, lane = (f.scalar.f32(1.0) if scale is None else scale for scale in tensors)
    code = f.lanes(s.tile.width)
    factor = code.broadcast(f.scalar.binary("mulf", row, lane))
    with f.loop(0, s.accumulators, s.tile.width) as i:
        at, total = code.at(f["tile"], i), code.load(code.at(f["tile"], f.i64("addi", i, s.accumulators)))
        code.store(code.fma(total, factor, code.load(at)), at)
    return f.function()


SCALED = Datapath(
    enter=_enter, walk=_walk, leave=_leave, limits=limits, state=_state, finish=finish, around=_around, wide=True
)
