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


_SIGN, _LEAST_NORMAL = 0x80000000, 0x00800000
_SCALE = 2.0**32
_TINY = 2.0**-126 - 2.0**-151  # what is below is less than 2^-126 when it is rounded to 24 bits


def _signed_zero(code: Code, x: Value) -> Value:
    return code.cast("bitcast", code.binary("andi", code.cast("bitcast", x, "i32"), code.int(_SIGN)), "f32")


def _flushed(code: Code, x: Value) -> Value:
    """Append a zero of the same sign in place of a subnormal number."""
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(_SIGN - 1))
    is_subnormal = code.compare("ult", magnitude, code.int(_LEAST_NORMAL))
    return code.select(is_subnormal, _signed_zero(code, x), x)


def _flushing_fma(code: Code, a: Value, b: Value, c: Value) -> Value:
    """Append an FMA of operands that are not subnormal, whose result is a zero where it is tiny after its rounding.

    A product of bfloat16 numbers is exact in binary64. Its sum with `c` is rounded there, but not across the bound: a
    sum of a number of 16 bits and a multiple of 2^-149 that is not the bound differs from it by more than that.
    """
    result = code.fma(a, b, c)
    x, y, z = (code.cast("extf", value, "f64") for value in (a, b, c))
    total = code.cast("bitcast", code.binary("addf", code.binary("mulf", x, y), z), "i64")
    magnitude = code.cast("bitcast", code.binary("andi", total, code.int((1 << 63) - 1, "i64")), "f64")
    is_tiny = code.compare("olt", magnitude, code.f64(_TINY))
    return code.select(is_tiny, _signed_zero(code, result), result)


def _pair_step(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
    """VDPBF16PS by itself: its odd elements are zeros."""
    start = code.binary("addf", _flushed(code, c), code.f32(0.0))
    return _flushing_fma(code, _flushed(code, a[0]), _flushed(code, b[0]), start)


def _row_step(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
    """TDPBF16PS by itself: all its elements but the first are zeros."""
    even = _flushing_fma(code, _flushed(code, a[0]), _flushed(code, b[0]), code.f32(0.0))
    both = code.binary("addf", even, code.f32(0.0))
    return _flushing_fma(code, both, code.f32(1.0), _flushed(code, c))


def _all(m: Micro, k: Value, values: Accumulators) -> list[Value]:
    """The products of one k, added to `values`."""
    code, (rows, lanes) = m.code, panels(m, k)
    rounded = m.setting.isa.flushes_rounded
    scaled = [] if rounded else [code.binary("mulf", lane[0], code.f32(_SCALE)) for lane in lanes]
    sums = []
    for n, c in enumerate(values):
        row, v = rows[n // m.vectors], n % m.vectors
        a, b = m.setting.ordered(row, lanes[v])
        result = code.fma(a[0], b[0], c)
        sums.append(result if rounded else _with_least(code, result, row[0], scaled[v], c))
    return sums


def _with_least(code: Code, result: Value, row: Value, scaled: Value, c: Value) -> Value:
    """Append 2^-126 in place of the zero that a mode makes of it which looks at results before their rounding.

    `scaled`: the lanes times the scale, by which no sum is tiny. Where a product or `c` overflows by it, the sum is a
    multiple of 2^-54: a product has 16 significant bits, and operands are not below 2^-126.
    """
    total = code.fma(row, scaled, code.binary("mulf", c, code.f32(_SCALE)))
    is_least = code.compare("oeq", code.unary("math.absf", total), code.f32(_SCALE * 2.0**-126))
    bits = code.select(is_least, code.int(_LEAST_NORMAL), code.int(0))
    return code.cast("bitcast", code.binary("ori", code.cast("bitcast", result, "i32"), bits), "f32")


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


AVX512_BF16 = replace(PLAIN, step=_pair_step, walk=_pairs, around=_mode(_pair), dot=_pair)
AMX_BF16 = in_matrices(replace(PLAIN, step=_row_step, walk=_two_chains, around=_mode(_in_matrices), dot=_in_matrices))
