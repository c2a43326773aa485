"""Sums of integers that saturate: the datapath ``int`` with ``saturate=1``, whose places of products matter.

Accumulators are where those of other sums of integers are (group_sums.py), and binary64 numbers in registers.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks.alignment import exact_product
from numc.passes.kernels.datapaths.blocks.products import Products
from numc.passes.kernels.datapaths.datapath import Accumulators, Micro, Segment
from numc.passes.kernels.datapaths.group_sums import GROUPS
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value


def _sums_at(m: Micro) -> list[Value]:
    """Where the 64-bit integers of a tile are."""
    return [m.code.at(m.f["tile"], m.setting.accumulators + 2 * offset) for offset in m.places]


def _enter(m: Micro, segment: Segment) -> Accumulators:
    return [m.code.cast("sitofp", m.code.load(at, element="i64"), "f64") for at in _sums_at(m)]


def _leave(m: Micro, segment: Segment, values: Accumulators) -> None:
    for at, value in zip(_sums_at(m), values, strict=True):
        m.code.store(m.code.cast("fptosi", value, "i64"), at)
    m.code.fence()


def _walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """Some products at a time, which are added to an accumulator, whose bounds are the least and the largest sum."""
    f, length = m.f, m.setting.fma.datapath["l"]
    with f.carry(first, end, length, values) as loop:
        last = f.i64("minsi", f.i64("addi", loop.index, length), end)
        loop.next = saturated(m.code, m.setting.fma, Products(length, m, loop.index, last), loop.values)
    return loop.results


def saturated(code: Code, fma: Fma, products: Products, totals: Accumulators) -> list[Value]:
    """Append accumulators, in binary64, and the products of a block, each between the least and the largest sum."""
    bits = fma.datapath["bits"]
    least, most = (code.f64(bound) for bound in (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1))

    def add(n: int, total: Value, a: Parts, b: Parts) -> Value:
        return code.binary("addf", total, exact_product(code, a, b))

    sums = products.fold(totals, add)
    return [code.binary("minimumf", code.binary("maximumf", total, least), most) for total in sums]


def _no_words(s: Setting) -> int:
    return 0


SATURATED = replace(GROUPS, enter=_enter, walk=_walk, leave=_leave, dot=_no_words)
