"""Reductions that take products in blocks: a datapath made of one function, which adds a block to the accumulators.

A block begins at a multiple of its length, counted from the first product of the reduction, or of a chunk: blocks of k
hold whole blocks (groups.py). Only the last one may be short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from numc.numerics.datapaths import Blocks
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Drawn, Micro
from numc.passes.kernels.datapaths.reads import fetch_ahead, panels
from numc.passes.kernels.datapaths.walks import PLAIN
from numc.passes.kernels.setting import Parts
from numc.passes.kernels.ssa import Value

T = TypeVar("T")


@dataclass(frozen=True)
class Products:
    """The products of a block, of every accumulator: those from step `first` up to `end` of a micro-kernel, of `length`
    in a whole block; or one pair of operands. every: how many steps they are apart."""

    length: int
    m: Micro | None = None
    first: Value | None = None
    end: Value | None = None
    pair: tuple[Parts, Parts] = ((), ())
    every: int = 1

    def share(self, n: int, of: int) -> Products:
        """Every product whose number in the block is `n` modulo `of`, for `fold`."""
        if of == 1:
            return self
        if self.m is None or self.first is None:
            return self if n == 0 else replace(self, pair=((), ()))
        return replace(self, first=self.m.f.i64("addi", self.first, n), every=of)

    def fold(self, starts: Sequence[Value], step: Callable[[int, Value, Parts, Parts], Value]) -> list[Value]:
        """Append a loop over the products of the block, which takes a value for each accumulator from `starts` on.

        step: appends the next value of an accumulator, from its number, its value, and the parts of A and of B.
        """
        m, end = self.m, self.end
        if m is None or self.first is None or end is None:
            return [step(n, value, *self.pair) for n, value in enumerate(starts)] if self.pair[0] else list(starts)
        with m.f.carry(self.first, end, self.every, starts) as loop:
            pairs = _pairs(m, loop.index)
            loop.next = [step(n, v, *pair) for n, (v, pair) in enumerate(zip(loop.values, pairs, strict=True))]
        return loop.results

    def in_runs(self, most: int) -> list[Products]:
        """The block in runs of at most `most` products, in order."""
        assert self.m is not None
        assert self.first is not None
        assert self.end is not None
        f, runs = self.m.f, []
        for begin in range(0, self.length, most):
            first = f.i64("addi", self.first, begin)
            runs.append(replace(self, first=first, end=f.i64("minsi", f.i64("addi", first, most), self.end)))
        return runs

    def both(self) -> list[tuple[tuple[Parts, Parts], tuple[Parts, Parts]]]:
        """Append the operands of both products of a block of two, for every accumulator.

        Where there is only one, the lanes of the other are +0: its product is a zero if no operand is an infinity.
        """
        m, first = self.m, self.first
        assert m is not None
        assert first is not None
        assert self.end is not None
        after = m.f.i64("addi", first, 1)
        there = m.f.compare("slt", after, self.end)
        rows, lanes = panels(m, m.f.select(there, after, first))
        lanes = [[m.code.select(there, x, m.code.f32(0.0)) for x in lane] for lane in lanes]
        others = [m.setting.ordered(row, lane) for row in rows for lane in lanes]
        return list(zip(_pairs(m, first), others, strict=True))

    def all(self, product: Callable[[Parts, Parts], T]) -> list[list[T]]:
        """Append all products of a block, [accumulator][product]; those that a short one lacks are of +0 and +0."""
        m, end = self.m, self.end
        if m is None or self.first is None or end is None:
            return [[product(*self.pair)]]
        f, code, steps = m.f, m.code, []
        if self.length == 1:
            return [[product(*pair)] for pair in _pairs(m, self.first)]
        for n in range(self.length):
            k = f.i64("addi", self.first, n)
            there = f.compare("slt", k, end)
            pairs = _pairs(m, f.select(there, k, self.first))
            zero = code.f32(0.0)
            steps.append([product(*([code.select(there, x, zero) for x in parts] for parts in pair)) for pair in pairs])
        return [list(products) for products in zip(*steps, strict=True)]


#: Appends what a block makes of accumulators, given what their roundings draw.
Block = Callable[[Code, Fma, Products, Accumulators, Sequence[Drawn]], Accumulators]


#: What takes its place within a micro-kernel whose guard holds.
CheapBlock = Callable[[Micro, Products, Accumulators], Accumulators]


def in_blocks(block: Block, cheap: CheapBlock | None = None) -> Datapath:
    """The datapath that adds blocks of products; a single multiply-add is a block of one.

    cheap: what takes the place of `block` where its `limits` hold.
    """

    def step(code: Code, fma: Fma, a: Parts, b: Parts, c: Value, drawn: Drawn) -> Value:
        (total,) = block(code, fma, Products(1, pair=(a, b)), [c], [drawn])
        return total

    def walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
        within = m.setting.fma.datapath.within
        assert isinstance(within, Blocks)
        with m.f.carry(first, end, within.length, values) as loop:
            fetch_ahead(m, loop.index)
            last = m.f.i64("minsi", m.f.i64("addi", loop.index, within.length), end)
            products = Products(within.length, m, loop.index, last)
            drawn = m.drawn(loop.index)
            if m.fast:
                assert cheap is not None
                loop.next = cheap(m, products, loop.values)
            else:
                loop.next = block(m.code, m.setting.fma, products, loop.values, drawn)
        return loop.results

    return replace(PLAIN, step=step, walk=walk, block=block, cheap_block=cheap)


def _pairs(m: Micro, k: Value) -> list[tuple[Parts, Parts]]:
    """The parts of A and of B of step `k`, for every accumulator."""
    rows, lanes = panels(m, k)
    return [m.setting.ordered(row, lane) for row in rows for lane in lanes]
