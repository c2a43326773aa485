"""Matrix and dot product instructions: themselves, or binary32 FMAs with subnormals flushed, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.datapath import Accumulators, Drawn, Micro
from numc.passes.kernels.datapaths.matrix import in_matrices, product_of
from numc.passes.kernels.datapaths.reads import fetch_ahead, panels
from numc.passes.kernels.datapaths.walks import PLAIN
from numc.passes.kernels.datapaths.words import words
from numc.passes.kernels.environment import subnormals_flushed
from numc.passes.kernels.setting import Parts, Setting
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


def _pair(s: Setting) -> int:
    """VDPBF16PS takes words of two steps, where the processor has it and it is faster than two FMAs."""
    return 2 if s.fast and s.instructions.dot_bf16 is not None else 0


def _pairs(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """VDPBF16PS: of each pair of elements the odd one first."""
    dot = m.setting.instructions.dot_bf16
    with m.f.carry(first, end, 2, values) as loop:
        fetch_ahead(m, loop.index)
        if dot is not None and _pair(m.setting):
            rows, lanes = words(m, loop.index, 2)
            loop.next = [dot(m.code, c, rows[n // m.vectors], lanes[n % m.vectors]) for n, c in enumerate(loop.values)]
        else:
            odd = m.f.i64("addi", loop.index, 1)
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


def _in_matrices(s: Setting) -> int:
    """TDPBF16PS takes words of two steps."""
    return 2 if product_of(s) is not None else 0


def _mode(words: Callable[[Setting], int]) -> Callable[[Function, Setting], AbstractContextManager[None]]:
    """The mode that FMAs need: instructions on words always flush."""
    return lambda f, s: nullcontext() if words(s) else subnormals_flushed(f)


AVX512_BF16 = replace(PLAIN, step=_fma, walk=_pairs, around=_mode(_pair), dot=_pair)
AMX_BF16 = in_matrices(replace(PLAIN, step=_fma, walk=_two_chains, around=_mode(_in_matrices), dot=_in_matrices))
