"""A datapath: a record of the functions that emit its multiply-adds, and the data they are given.

A micro-kernel updates one micro-tile of accumulators by the steps of one block of k. Its datapath divides the block
into segments (one, unless sums are kept apart), and each segment is: `enter`, which gives the accumulators in
registers; `walk`, the loop over the steps of k, of which each is `step` on every accumulator, or `cheap` where a guard
admits it; and `leave`, which stores what the walk left. `finish` ends the reduction. A walk of its own needs no
`step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.setting import Parts, Setting
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64
from numc.passes.kernels.values.records import Noise
from numc.passes.kernels.values.widths import Numbers, run_time


class Drawn(NamedTuple):
    """The values that the roundings of one step take from the run.

    product, acc: the random bits of the product's rounding and of the accumulator's. widths: the numbers of the
    product's format if its widths are open.
    """

    product: Noise = None
    acc: Noise = None
    widths: Numbers | None = None


NOTHING = Drawn()


@dataclass(frozen=True)
class Guard:
    """When a cheap sequence is exact, as bounds on exponents (powers of two).

    largest: every partial sum must stay below ``2 ** largest``.
    product: the smallest non-zero products ``2 ** (emin_a + emin_b)`` must reach ``2 ** product``.
    minus_zero: an accumulator may be -0 at entry; without it that is outside of the guard.
    normal: the smallest magnitudes of both operands must be normal numbers.
    least: those of the lanes must reach ``2 ** least``.
    spread: no product may be more than ``2 ** spread`` times as large as another one that is not zero.
    entry: `largest` is for the accumulators at entry only; of the sums after them the overflow flag tells.
    operands: the magnitudes of both operands must stay below ``2 ** operands``.
    """

    largest: int
    product: int
    minus_zero: bool = False
    normal: bool = False
    least: int = -149
    entry: bool = False
    spread: int | None = None
    operands: int | None = None


@dataclass(kw_only=True)
class Micro:
    """A micro-kernel that is being written: `rows` x `vectors` accumulators, by the exact or the cheap sequence.

    name: that of its set of micro-kernels, which begins the names of all functions of the set.
    f: the function; its arguments are ``rows`` and ``lanes`` (packed panels), ``tile``, ``kc`` (steps of k) and the
    datapath's own. kept: what the datapath's `prepare` returned. widths: the numbers of the product's format if its
    widths are open. row_starts: where the rows begin, if they may be where the operand is. vector_starts: where the
    vectors of lanes begin, and whether that is in the operand, if it may be.
    """

    name: str
    f: Function
    setting: Setting
    datapath: Datapath
    rows: int
    vectors: int
    fast: bool
    kept: Any = None
    widths: Numbers | None = None
    row_starts: Sequence[Value] = ()
    vector_starts: Sequence[tuple[Value, Value]] = ()

    @property
    def code(self) -> Code:
        """The function, seen with vectors of the tile's width."""
        return self.f.lanes(self.setting.tile.width)

    @property
    def places(self) -> list[int]:
        """Where in the tile each accumulator's vector is."""
        t = self.setting.tile
        return [r * t.lanes + v * t.width for r in range(self.rows) for v in range(self.vectors)]

    @property
    def scale(self) -> float:
        """The factor of products and accumulators inside of the micro-kernel."""
        return self.datapath.scale(self.setting) if self.fast else 1.0

    @property
    def together(self) -> int:
        """The number of accumulators that take a step together."""
        return self.datapath.together(self.setting)

    def drawn(self, k: Value) -> list[Drawn]:
        """Append what the roundings of every accumulator take from the run at step `k` of the block."""
        return [each._replace(widths=self.widths) for each in self.datapath.draw(self, k)]

    def apply(self, code: Code, a: Parts, b: Parts, c: Value, drawn: Drawn, product: Value | None = None) -> Value:
        """Append one step on one accumulator."""
        s = self.setting
        if not self.fast:
            assert self.datapath.step is not None
            return self.datapath.step(code, s.fma, a, b, c, drawn)
        assert self.datapath.cheap is not None
        return self.datapath.cheap(code, s.fma, s.instructions, a, b, c, drawn, product)


def product_numbers(code: Code, fma: Fma, widths: Value) -> Numbers:
    """Append the numbers of a product's format from its widths (an i64 scalar); datapath exact rounds in binary64."""
    assert fma.product is not None
    return run_time(code, widths, fma.product, F64 if fma.datapath.name == "exact" else F32)


@dataclass(frozen=True)
class Segment:
    """Steps of k of one block: from `first` up to `end`. The segment began at `begin`, and ends before `whole`.

    `begin` is below `first` if the segment goes on from the block before, and `whole` is above `end` if it is cut.
    """

    begin: Value
    first: Value
    end: Value
    whole: Value


Addends = Callable[[Code, Fma, Parts, Parts, Value, Drawn], Iterator[tuple[Value, Value]]]
Step = Callable[[Code, Fma, Parts, Parts, Value, Drawn], Value]
Cheap = Callable[[Code, Fma, InstructionSet, Parts, Parts, Value, Drawn, Value | None], Value]
Accumulators = Sequence[Value]


def _never(s: Setting) -> None:
    return None


def _no_additions(fma: Fma) -> int:
    return 0


def _one(s: Setting) -> float:
    return 1.0


def _none(s: Setting) -> int:
    return 0


def no_mode(f: Function, s: Setting) -> AbstractContextManager[Any]:
    """The mode in which the processor is anyway."""
    return nullcontext()


def _one_at_a_time(s: Setting) -> int:
    return 1


def _nothing(m: Micro) -> None:
    """There is nothing to compute before the loops."""


def _nothing_drawn(m: Micro, k: Value) -> list[Drawn]:
    return [NOTHING] * (m.rows * m.vectors)


@dataclass(frozen=True, kw_only=True)
class Datapath:
    """The functions of a datapath. Those that a `Setting` is passed to answer a question, the others append code.

    enter, walk, leave: the parts of a segment, as above; walks.py has the ordinary ones.
    step: one multiply-add, exact for every input; None if the walk takes none.
    cheap: one that is exact under `limits`, on values times `scale`.
    limits: when `cheap` may run; None if never. With a `scale`, no result may overflow, or be tiny and inexact, either:
    the flags are watched. flushes: `cheap` runs with subnormal operands and results replaced by zeros instead.
    together: how many accumulators take a step operation by operation, before the next ones do.
    state: how many f32 words a tile takes for each accumulator, behind the accumulators.
    arguments: further arguments of the micro-kernels, and their types; of `finish` those that are not ``k0`` too.
    prepare: what is computed before the loops; the result is `Micro.kept`. draw: the random bits of one step of k.
    segment: how many steps of k are summed from one `enter` to the next `leave`; None for all of a block. If blocks do
    not hold whole segments, these go on from block to block, and ``k0``, where the block begins, must be an argument.
    finish: the function ``@<name>_finish``, which ends a reduction; empty if there is nothing to do.
    around: the context in which a micro-kernel is called; with `limits`, one that is cheap.
    wide: whether accumulators are in binary64, and take twice their registers; cheap_wide: in cheap sequences as well.
    in_turn: how many vectors a row of a tile has if accumulators are in memory but for one row after the other, else 0.
    dot: how many steps of k one word of the packed operands holds, which one instruction takes; 0 if they are f32.
    additions: how many additions of a multiply-add can be counted. addends: those of one step, as pairs of what is
    added, both in binary32; the last one adds the product to C. None: `leave` counts them.
    block: what a walk in blocks makes of the products of one (blocks/products.py), exact for every input; None: steps.
    cheap_block: what takes its place under `limits` in a processor's ordinary mode, whatever `around` is.
    in_place: whether segments and walks are the default ones, so that steps can be taken elsewhere too: on operands
    that are converted as they are read (unpacked_row.py), and for the last lanes by a micro-kernel of their own.
    """

    enter: Callable[[Micro, Segment], Accumulators]
    walk: Callable[[Micro, Value, Value, Accumulators], Accumulators]
    leave: Callable[[Micro, Segment, Accumulators], None]
    step: Step | None = None
    cheap: Cheap | None = None
    limits: Callable[[Setting], Guard | None] = _never
    scale: Callable[[Setting], float] = _one
    flushes: bool = False
    together: Callable[[Setting], int] = _one_at_a_time
    state: Callable[[Setting], int] = _none
    arguments: tuple[tuple[str, str], ...] = ()
    prepare: Callable[[Micro], Any] = _nothing
    draw: Callable[[Micro, Value], list[Drawn]] = _nothing_drawn
    segment: Callable[[Setting], int | None] = _never
    finish: Callable[[Setting, str], str] | None = None
    additions: Callable[[Fma], int] = _no_additions
    addends: Addends | None = None
    in_place: bool = False
    around: Callable[[Function, Setting], AbstractContextManager[Any]] = no_mode
    wide: bool = False
    cheap_wide: bool = False
    in_turn: Callable[[Setting], int] = _none
    dot: Callable[[Setting], int] = _none
    block: Callable[..., Accumulators] | None = None
    cheap_block: Callable[..., Accumulators] | None = None
