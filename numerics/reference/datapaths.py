"""Reductions of operands without groups, defined datapath by datapath (arithmetic.md section 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from numc.numerics.datapaths import Blocks, Own
from numc.numerics.defined import is_defined
from numc.numerics.exact.multiples import to_multiple
from numc.numerics.exact.value import ONE, POINT, PRODUCT_POINT, Value, exact_fma, exact_sum
from numc.numerics.formats.rounding import Rounder, rounder
from numc.numerics.operators import FP32, Fma
from numc.numerics.reference.amd_units import dot_block, pairwise_block, staged_block
from numc.numerics.reference.defined import defined_run
from numc.numerics.reference.fused import fused_block
from numc.numerics.reference.random import PRODUCT, accumulator_draws

Parts = tuple[Value, ...]
Step = Callable[[Parts, Parts, Value, int, int], Value]
# A block of products that is added to an accumulator; the number is what its rounding draws.
Block = Callable[[Sequence[Parts], Sequence[Parts], Value, int], Value]


@dataclass(frozen=True)
class Draws:
    """The source of random bits of an accumulator: the stream of its operation, and its index in the result."""

    stream: int
    element: int

    def of(self, op: Fma, depth: int) -> Iterator[tuple[int, int]]:
        """Yield the noise of the product and of the accumulator for steps 0 to depth; the last is a chunked total's."""
        ks = np.arange(depth + 1)
        both = []
        for to, part in ((op.product, PRODUCT), (op.acc, 0)):
            noise = to.noise if to else None
            both.append(accumulator_draws(self.stream, self.element, ks, noise, part) if noise else [0] * len(ks))
        return zip(*both, strict=True)


Contraction = Callable[[Sequence[Parts], Sequence[Parts], Value, Draws], Value]


Run = Callable[[Sequence[Parts], Sequence[Parts], Value, Sequence[tuple[int, int]]], Value]


@cache
def contraction(op: Fma) -> Contraction:
    """Return the reduction of an operator on converted operands, from a converted start."""
    path = op.datapath
    if isinstance(path.within, Own):
        return _INSTRUCTIONS[path.name]
    run = _blocks(op, path.within) if isinstance(path.within, Blocks) else _steps(op)
    if path.in_runs:
        return _in_runs(op, run, rounder(op.total, POINT))
    if op.steps_draw:
        return lambda a, b, c, draws: run(a, b, c, list(draws.of(op, len(a))))
    return lambda a, b, c, draws: run(a, b, c, [(0, 0)] * len(a))


def _steps(op: Fma) -> Run:
    """One product after the other."""
    step = STEPS[op.datapath.name](op)

    def run(a: Sequence[Parts], b: Sequence[Parts], c: Value, noise: Sequence[tuple[int, int]]) -> Value:
        for x, y, drawn in zip(a, b, noise, strict=False):
            c = step(x, y, c, *drawn)
        return c

    return run


def _blocks(op: Fma, order: Blocks) -> Run:
    """Blocks of products, of which the last one may be short; each draws as its first product."""
    if is_defined(op):
        return defined_run(op)
    block, length = BLOCKS[op.datapath.name](op), order.length

    def run(a: Sequence[Parts], b: Sequence[Parts], c: Value, noise: Sequence[tuple[int, int]]) -> Value:
        for k in range(0, len(a), length):
            c = block(a[k : k + length], b[k : k + length], c, noise[k][1])
        return c

    return run


def _in_runs(op: Fma, run: Run, to_total: Rounder) -> Contraction:
    """Sums of some steps from +0 are added up in binary32; the total is rounded at its end."""

    def contract(a: Sequence[Parts], b: Sequence[Parts], c: Value, draws: Draws) -> Value:
        noise = list(draws.of(op, len(a)))
        total, length = c, op.datapath.run_length(len(a))
        for begin in range(0, len(a), length):
            end = min(begin + length, len(a))
            total = _f32_add(total, run(a[begin:end], b[begin:end], 0, noise[begin:end]))
        return to_total(total, noise[-1][1])

    return contract


_TO_F32 = rounder(FP32, PRODUCT_POINT)


def f32_fma(a: Value, b: Value, c: Value) -> Value:
    """The binary32 FMA, to nearest even."""
    return _TO_F32(exact_fma(a, b, c))


def f32_mul(a: Value, b: Value) -> Value:
    """The binary32 product, to nearest even."""
    if type(a) is int and type(b) is int and a and b:
        return _TO_F32(a * b)
    return f32_fma(a, b, -0.0)  # x + -0 is x, for zeros of both signs too


def _f32_add(x: Value, y: Value) -> Value:
    return f32_fma(x, ONE, y)


def _fp32_step(op: Fma) -> Step:
    """Section 3, datapath fp32: a chain of binary32 FMAs, one addition, one conversion."""
    to_acc = rounder(op.acc, POINT)
    first, *others = op.terms
    to_product = rounder(op.product, POINT) if op.product else None

    def single(a: Parts, b: Parts, c: Value, _: int, noise: int) -> Value:
        return to_acc(_TO_F32(exact_fma(a[0], b[0], c)), noise)

    def chain(a: Parts, b: Parts, c: Value, product_noise: int, noise: int) -> Value:
        p = f32_mul(a[first[0]], b[first[1]])
        for i, j in others:
            p = f32_fma(a[i], b[j], p)
        if to_product:
            p = to_product(p, product_noise)
        return to_acc(_f32_add(p, c), noise)

    return chain if others or to_product else single


def _exact_step(op: Fma) -> Step:
    """Section 3, datapath exact: one rounding of the real sum; MAC and MACS also round the real product."""
    to_acc = rounder(op.acc, PRODUCT_POINT)
    to_product = rounder(op.product, PRODUCT_POINT) if op.product else None

    def step(a: Parts, b: Parts, c: Value, product_noise: int, noise: int) -> Value:
        products = [(a[i], b[j]) for i, j in op.terms]
        if to_product:
            products = [(to_product(exact_sum(products, -0.0), product_noise), ONE)]
        return to_acc(exact_sum(products, c), noise)

    return step


_MIN_NORMAL = 1 << (POINT - 126)


def _daz(x: Value) -> Value:
    """Denormals are zeros, of the same sign."""
    if type(x) is int and -_MIN_NORMAL < x < _MIN_NORMAL:
        return 0 if x >= 0 else -0.0
    return x


def _ftz_fma(a: Value, b: Value, c: Value) -> Value:
    """A binary32 FMA, to nearest even, that takes and returns zeros for subnormals (tiny is decided after rounding)."""
    exact = exact_fma(_daz(a), _daz(b), _daz(c))
    if type(exact) is int and exact:
        shift = abs(exact).bit_length() - FP32.format.precision
        rounded = to_multiple(abs(exact), shift, "rne", exact < 0) if shift > 0 else abs(exact)
        if rounded < _MIN_NORMAL << POINT:
            return 0 if exact > 0 else -0.0
    return _TO_F32(exact)


def _amx_bf16(a: Sequence[Parts], b: Sequence[Parts], c: Value, _: Draws) -> Value:
    """TDPBF16PS on rows of 32: even and odd elements in a chain each, then the sum of both is added to C."""
    for block in range(0, len(a), 32):
        even: Value = 0
        odd: Value = 0
        for k in range(block, min(block + 32, len(a)), 2):
            even = _ftz_fma(a[k][0], b[k][0], even)
            odd = _ftz_fma(*_element(a, b, k + 1), odd)
        c = _ftz_fma(_ftz_fma(even, ONE, odd), ONE, c)
    return c


def _avx512_bf16(a: Sequence[Parts], b: Sequence[Parts], c: Value, _: Draws) -> Value:
    """VDPBF16PS: of each pair the odd element first."""
    for k in range(0, len(a), 2):
        c = _ftz_fma(*_element(a, b, k + 1), c)
        c = _ftz_fma(a[k][0], b[k][0], c)
    return c


def _element(a: Sequence[Parts], b: Sequence[Parts], k: int) -> tuple[Value, Value]:
    """Element k of both operands; +0 in the half of the last pair that an odd length leaves empty."""
    return (a[k][0], b[k][0]) if k < len(a) else (0, 0)


# What a step is, of the datapaths that take one product after the other, and what a block is, of those in blocks.
STEPS: Mapping[str, Callable[[Fma], Step]] = {"fp32": _fp32_step, "exact": _exact_step}
BLOCKS: Mapping[str, Callable[[Fma], Block]] = {
    "fused": fused_block,
    "dot": dot_block,
    "pairwise": pairwise_block,
    "staged": staged_block,
}
_INSTRUCTIONS: Mapping[str, Contraction] = {"amx_bf16": _amx_bf16, "avx512_bf16": _avx512_bf16}
