"""Matrix and dot product instructions, emulated: binary32 FMAs with subnormals flushed, in the instruction's order."""

from __future__ import annotations

from numc.compiler.arithmetic.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Drawn, Micro, Parts, fetch_ahead, panels
from numc.passes.kernels.environment import subnormals_flushed
from numc.passes.kernels.ssa import Value

_ROW = 32  # elements of a row of TDPBF16PS


def _fma(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
    return code.fma(a[0], b[0], c)


def _all(m: Micro, k: Value, values: Accumulators) -> list[Value]:
    """The products of one k, added to `values`."""
    rows, lanes = panels(m, k)
    found = []
    for n, c in enumerate(values):
        a, b = m.setting.ordered(rows[n // m.vectors], lanes[n % m.vectors])
        found.append(m.code.fma(a[0], b[0], c))
    return found


def _pairs(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """VDPBF16PS: of each pair of elements the odd one first."""
    with m.f.carry(first, end, 2, values) as loop:
        odd = m.f.i64("addi", loop.index, 1)
        fetch_ahead(m, loop.index)
        loop.next = _all(m, loop.index, _all(m, odd, loop.values))
    return loop.results


def _two_chains(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """TDPBF16PS: in rows of 32, one chain over even k and one over odd k from +0, then C + (E + O)."""
    f, code, count = m.f, m.code, len(values)
    with f.carry(first, end, _ROW, values) as rows:
        last = f.i64("minui", f.i64("addi", rows.index, _ROW), end)
        with f.carry(rows.index, last, 2, [code.f32(0.0)] * (2 * count)) as chains:
            odd = f.i64("addi", chains.index, 1)
            even_sums = _all(m, chains.index, chains.values[:count])
            chains.next = [*even_sums, *_all(m, odd, chains.values[count:])]
        both = zip(chains.results[:count], chains.results[count:], strict=True)
        rows.next = [
            code.binary("addf", c, code.binary("addf", *pair)) for c, pair in zip(rows.values, both, strict=True)
        ]
    return rows.results


AVX512_BF16 = Datapath(step=_fma, walk=_pairs, around=subnormals_flushed)
AMX_BF16 = Datapath(step=_fma, walk=_two_chains, around=subnormals_flushed)
