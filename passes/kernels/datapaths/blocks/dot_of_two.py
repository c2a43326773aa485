"""The datapath ``dot`` for blocks of two products in binary32, which is exact under a guard.

Binary32 has the products exactly. The sum of three numbers is rounded once (Boldo and Melquiond 2008): TwoSum of the
products, then of their sum and the accumulator, and the errors of both, added to odd, decide the last addition.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.formats import Record
from numc.numerics.operators import FP32, Fma
from numc.passes.kernels.datapaths.blocks.products import Products, in_blocks
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Guard, Micro
from numc.passes.kernels.datapaths.steps.chain import emit_add_to_odd, emit_two_sum
from numc.passes.kernels.setting import Setting
from numc.passes.kernels.values.carrier import F32


def applies(fma: Fma) -> bool:
    """Whether an operator adds two products, and binary32 has them."""
    formats = [to.format for to in fma.singles]
    records = all(isinstance(fmt, Record) for fmt in formats)
    fits = records and sum(fmt.precision for fmt in formats) <= F32.significand_bits + 1
    return fma.datapath.name == "dot" and fma.datapath["l"] == 2 and fits and fma.acc == FP32


def in_binary32(path: Datapath) -> Datapath:
    """The datapath with this cheap sequence."""
    assert path.block is not None
    return replace(in_blocks(path.block, block), limits=_limits, wide=True)


def _limits(s: Setting) -> Guard:
    """No sum overflows, and the last bits of products are multiples of binary32's least number."""
    bits = sum(to.format.precision for to in s.fma.singles)
    return Guard(largest=126, product=bits - 2 - 149, minus_zero=True, normal=True)


def block(m: Micro, products: Products, sums: Accumulators) -> Accumulators:
    """Append the sums of two products, or of one, and of accumulators."""
    code = m.code
    results = []
    for ((a, b), (d, e)), c in zip(products.both(), sums, strict=True):
        first, second = (a[0], b[0]), (d[0], e[0])
        x = code.binary("mulf", *first)
        total = code.fma(*second, x)
        # TwoSum of x and of the other product, which is never rounded.
        of_second = code.binary("subf", total, x)
        of_first = code.binary("subf", total, of_second)
        parts = (first, of_first), (second, of_second)
        error = code.binary("addf", *(code.fma(*pair, code.unary("arith.negf", part)) for pair, part in parts))
        whole, rest = emit_two_sum(code, c, total)
        results.append(code.binary("addf", whole, emit_add_to_odd(code, rest, error)))
    return results
