"""What a datapath is: a record of the functions that emit its multiply-adds, and the data they are given.

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
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from numc.numerics.formats import Conversion
from numc.numerics.groups import GroupConversion
from numc.numerics.operators import Fma
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64
from numc.passes.kernels.values.codes import code_bits, emit_unpacked
from numc.passes.kernels.values.rounding import Noise
from numc.passes.kernels.values.widths import Numbers, run_time


class Adjacency(Enum):
    """What is known of the memory of an operand, whatever its sizes: which elements of a row or of lanes are adjacent.

    NONE: nor is there one between two of them. THIRD, FOURTH: most of them are three or four elements apart.
    """

    UNKNOWN = ""
    ALL = "adjacent"
    NONE = "apart"
    THIRD = "third"
    FOURTH = "fourth"

    @property
    def stride(self) -> int:
        """How many elements apart those of a segment may be, other than one (packing/segments.py)."""
        return next((stride for stride, known in STRIDED.items() if known is self), 2)


STRIDED = {3: Adjacency.THIRD, 4: Adjacency.FOURTH}
_LINE = 64  # bytes of a cache line

Parts = Sequence[Value]  # of an operand: its value, or the bf16 numbers whose sum it is


class Drawn(NamedTuple):
    """What the roundings of one step take from the run.

    product, acc: the random bits of the product's rounding and of the accumulator's. widths: the numbers of the
    product's format if its widths are open.
    """

    product: Noise = None
    acc: Noise = None
    widths: Numbers | None = None


NOTHING = Drawn()

#: The arguments that say where rows are, if they may be in place: the offset of each, and the distance of two steps of
#: k of one row that are a vector apart, in vectors.
ROWS_IN_PLACE = {"starts": "!llvm.ptr", "chunk": "i64"}
#: Those that say where lanes are, if vectors of them may be in place: of every vector of the panel the address and
#: whether it is in place, a word each; and the offset of every step of k from such an address.
LANES_IN_PLACE = {"vectors": "!llvm.ptr", "steps": "!llvm.ptr"}
#: That which says how far steps of k of the lanes are apart, if whole panels may be in place.
LANE_STEP = {"lane_step": "i64"}


@dataclass(frozen=True)
class Guard:
    """When a cheap sequence is exact, as bounds on exponents (powers of two).

    largest: every partial sum must stay below ``2 ** largest``.
    product: the smallest non-zero products ``2 ** (emin_a + emin_b)`` must reach ``2 ** product``.
    minus_zero: an accumulator may be -0 at entry; without it that is outside of the guard.
    normal: the smallest magnitudes of both operands must be normal numbers.
    least: those of the lanes must reach ``2 ** least``.
    entry: `largest` is for the accumulators at entry only; of the sums after them the overflow flag tells.
    """

    largest: int
    product: int
    minus_zero: bool = False
    normal: bool = False
    least: int = -149
    entry: bool = False


@dataclass(frozen=True)
class Setting:
    """What a set of micro-kernels is generated for. `swap`: rows come from the operator's b, lanes from its a.

    fast: cheap sequences may run where they are exact. partial: row counts below `tile.rows` that get a micro-kernel of
    their own (fewer rows, the same panels). narrow: so does one vector of the tile's, for the last lanes.
    statistics: micro-kernels can count their additions (counting.py). rows_in_place: a panel of rows may also be where
    the operand is. lanes_in_place: so may every vector of a panel of lanes. transposes: lanes are packed by a function
    of its own where their steps of k are adjacent. turns: so are rows that are adjacent themselves. codes: the side
    whose panels are codes of its format, if one is; expands: tasks make numbers of them, so that micro-kernels do not
    read codes. dense: lanes are packed words of integers without room between them. narrow_in_memory: the sides whose
    operand lies in memory in the bytes of its format, a narrow dtype, or in bytes of integers, and not as f32 numbers.
    adjacency: that of the elements of a row along k, and of the lanes.
    """

    fma: Fma
    tile: Tile
    swap: bool = False
    fast: bool = True
    partial: tuple[int, ...] = ()
    isa: InstructionSet = PORTABLE
    narrow: bool = False
    statistics: bool = False
    rows_in_place: bool = False
    lanes_in_place: bool = False
    transposes: bool = False
    turns: bool = False
    codes: str = ""
    expands: bool = False
    dense: bool = False
    narrow_in_memory: tuple[str, ...] = ()
    adjacency: tuple[Adjacency, Adjacency] = (Adjacency.UNKNOWN, Adjacency.UNKNOWN)

    @property
    def instructions(self) -> InstructionSet:
        """The instructions on vectors of the tile's width."""
        return self.isa.at(self.tile.width)

    @property
    def accumulators(self) -> int:
        """How many accumulators a tile has."""
        return self.tile.rows * self.tile.lanes

    def operand(self, side: str) -> int:
        """The number of the operand (0 for a, 1 for b) that supplies the ``rows`` or the ``lanes``."""
        return int((side == "rows") == self.swap)

    def ordered(self, row: Parts, lane: Parts) -> tuple[Parts, Parts]:
        """The values of a row and of lanes as (a, b)."""
        return (lane, row) if self.swap else (row, lane)

    def parts(self, side: str) -> int:
        """How many parts the values of that operand have."""
        return self.fma.parts[self.operand(side)]

    def conversion(self, side: str) -> Conversion:
        """The format of that operand, if it has no groups. A stochastic conversion has been done before, as a whole."""
        return self.fma.singles[self.operand(side)].settled

    def element(self, side: str) -> str:
        """The type of that operand's elements in memory: f32, or integers of as many bits as its format has."""
        if side not in self.narrow_in_memory:
            return "f32"
        return "i8" if self.fma.datapath.name == "bytes" else f"i{self.conversion(side).format.bits}"

    def adjacency_of(self, side: str) -> Adjacency:
        """What is known of the memory of that operand."""
        return self.adjacency[int(side == "lanes")]

    def is_open(self, side: str) -> bool:
        """Whether a run chooses the widths of that operand."""
        return (self.fma.a, self.fma.b)[self.operand(side)].open is not None

    @property
    def has_open_product(self) -> bool:
        """Whether a run chooses the widths that products are rounded to."""
        return self.fma.product is not None and self.fma.product.open is not None

    def groups_of(self, side: str) -> GroupConversion:
        """The format of that operand, if it has groups."""
        assert self.fma.groups is not None
        return self.fma.groups[self.operand(side)]


@dataclass
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
        """What products and accumulators are multiplied by inside of the micro-kernel."""
        return self.datapath.scale(self.setting) if self.fast else 1.0

    @property
    def together(self) -> int:
        """How many accumulators take a step together."""
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


def _no_mode(f: Function, s: Setting) -> AbstractContextManager[Any]:
    return nullcontext()


def _one_at_a_time(s: Setting) -> int:
    return 1


def _nothing(m: Micro) -> None:
    """There is nothing to compute before the loops."""


def _nothing_drawn(m: Micro, k: Value) -> list[Drawn]:
    return [NOTHING] * (m.rows * m.vectors)


def load_tile(m: Micro, segment: Segment) -> Accumulators:
    """The accumulators from memory, scaled."""
    code, found = m.code, []
    for place in m.places:
        value = code.load(code.at(m.f["tile"], place))
        found.append(value if m.scale == 1 else code.binary("mulf", value, code.f32(m.scale)))
    return found


def store_tile(m: Micro, segment: Segment, values: Accumulators) -> None:
    """The accumulators to memory, scaled back."""
    code = m.code
    for place, value in zip(m.places, values, strict=True):
        back = value if m.scale == 1 else code.binary("mulf", value, code.f32(1 / m.scale))
        code.store(back, code.at(m.f["tile"], place))


def one_by_one(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """The loop over steps of k in ascending order."""
    f, s = m.f, m.setting
    is_whole = (m.rows, m.vectors) == (s.tile.rows, s.tile.vectors)
    if s.instructions.unrolled > 1 and is_whole and s.fma.is_one_fma:
        first, values = _several(m, first, end, values)
    elif m.datapath.segment(s) is None and not s.lanes_in_place:
        # Not for segments, which are shorter, nor if addresses of lanes have taken the registers that this needs.
        return by_vectors(m, first, end, values, partial(one_step, m))
    with f.carry(first, end, 1, values) as loop:
        loop.next = one_step(m, loop.index, loop.values)
    return loop.results


def _several(m: Micro, first: Value, end: Value, values: Accumulators) -> tuple[Value, Accumulators]:
    """The loop over steps that follow each other without a jump, and the first one that is left."""
    f, unrolled = m.f, m.setting.instructions.unrolled
    rest = f.i64("subi", end, f.i64("remui", f.i64("subi", end, first), unrolled))
    share = 4 * m.setting.tile.rows * m.setting.parts("rows")  # of a step, in bytes to prefetch
    with f.carry(first, rest, unrolled, values) as loop:
        found: Accumulators = loop.values
        for n in range(unrolled):
            new_line = n * share // _LINE != (n - 1) * share // _LINE
            found = one_step(m, f.i64("addi", loop.index, n), found, ahead=new_line)
        loop.next = found
    return rest, loop.results


def by_vectors(
    m: Micro, first: Value, end: Value, values: Accumulators, step: Callable[[Value, Accumulators, Value], Accumulators]
) -> Accumulators:
    """A loop over steps, or words of several, in ascending order: `step` appends one of them.

    It is given its number, the accumulators, and the number of the first one in its vector of a packed row: where a
    vector begins is computed once.
    """
    f, width = m.f, m.setting.tile.width
    with f.carry(vector_of(m, first), end, width, values) as vectors:
        begin = f.i64("maxsi", first, vectors.index)
        with f.carry(begin, f.i64("minsi", end, f.i64("addi", vectors.index, width)), 1, vectors.values) as loop:
            loop.next = step(loop.index, loop.values, vectors.index)
        vectors.next = loop.results
    return vectors.results


def vector_of(m: Micro, step: Value) -> Value:
    """The first step, or word, of that vector of a packed row which `step` is in."""
    return m.f.i64("subi", step, m.f.i64("andi", step, m.setting.tile.width - 1))


def one_step(
    m: Micro, k: Value, values: Accumulators, vector: Value | None = None, *, ahead: bool = True
) -> list[Value]:
    """One step of k on every accumulator. vector: as for `row_places`. ahead: with a prefetch."""
    code = m.code
    if ahead:
        fetch_ahead(m, k)
    drawn = m.drawn(k)
    if m.together > 1:
        return _some_together(m, k, values, drawn, vector)
    rows, lanes = panels(m, k, vector)
    lanes = scaled(m, lanes)
    found = []
    for n, c in enumerate(values):
        a, b = m.setting.ordered(rows[n // m.vectors], lanes[n % m.vectors])
        found.append(m.apply(code, a, b, c, drawn[n]))
    return found


def _some_together(
    m: Micro, k: Value, values: Accumulators, drawn: Sequence[Drawn], vector: Value | None
) -> list[Value]:
    """The same on `Datapath.together` accumulators after the other ones."""
    code, size = m.code, m.together
    places, lanes = row_places(m, k, vector), scaled(m, lane_values(m, k))
    rows: list[list[Value]] = []

    def step(n: int) -> Value:
        row, v = divmod(n, m.vectors)
        a, b = m.setting.ordered(rows[row], lanes[v])
        return m.apply(code, a, b, values[n], drawn[n])

    found: list[Value] = []
    for first in range(0, len(values), size):
        if first:
            lane = lanes[first % m.vectors]
            *found[-size:], lane[0] = m.setting.instructions.barrier(code, [*found[-size:], lane[0]])
        end = min(first + size, len(values))
        rows += [[code.splat(at) for at in parts] for parts in places[len(rows) : -(-end // m.vectors)]]
        found += m.f.in_turns([partial(step, n) for n in range(first, end)])
    return found


def fetch_ahead(m: Micro, k: Value) -> None:
    """Prefetch this step's share of the next panel of rows, if the micro-kernel is told where that begins."""
    if "ahead" not in m.f.arguments:
        return
    s, scalar = m.setting, m.f.scalar
    place = scalar.binary("muli", k, scalar.int(s.tile.rows * s.parts("rows"), "i64"))
    s.instructions.prefetch(m.code, m.f.at(m.f["ahead"], place))


def row_starts(m: Micro) -> list[Value]:
    """Where the rows begin, if the micro-kernel is told so by `ROWS_IN_PLACE`."""
    if not m.setting.rows_in_place:
        return []
    return [m.f.at(m.f["rows"], m.f.fetch(m.f["starts"], r)) for r in range(m.rows)]


def vector_starts(m: Micro) -> list[tuple[Value, Value]]:
    """Where the vectors of lanes begin, and whether in the operand, if the micro-kernel is told by `LANES_IN_PLACE`."""
    if not m.setting.lanes_in_place:
        return []
    f = m.f
    starts = [f.fetch(f["vectors"], 2 * v, "!llvm.ptr") for v in range(m.vectors)]
    return [(at, f.compare("ne", f.fetch(f["vectors"], 2 * v + 1), f.number(0))) for v, at in enumerate(starts)]


def row_places(m: Micro, k: Value, vector: Value | None = None) -> list[list[Value]]:
    """Where the values of the rows are at step `k`: [row][part] (layout.py says how panels are laid out).

    vector: the first step of that vector of a packed row which `k` is in, if it is known.
    """
    s, scalar, code = m.setting, m.f.scalar, m.code
    t, parts = s.tile, s.parts("rows")
    if vector is None:
        vector = vector_of(m, k)
    within = scalar.binary("subi", k, vector)
    if s.rows_in_place:
        at = scalar.binary("addi", scalar.binary("muli", vector, m.f["chunk"]), within)
        return [[code.at(start, at)] for start in m.row_starts]
    at = scalar.binary("addi", scalar.binary("muli", vector, scalar.int(t.rows * parts, "i64")), within)
    base = code.at(m.f["rows"], at)
    return [[code.at(base, (r * parts + p) * t.width) for p in range(parts)] for r in range(m.rows)]


def lane_values(m: Micro, k: Value) -> list[list[Value]]:
    """The values of the lanes at step `k`: [vector][part]."""
    if m.setting.codes == "lanes" and not m.setting.expands:
        return _from_codes(m, k)
    t, parts, scalar, code = m.setting.tile, m.setting.parts("lanes"), m.f.scalar, m.code
    step = m.f.arguments.get("lane_step") or scalar.int(t.lanes * parts, "i64")
    at = scalar.binary("muli", k, step)
    if m.setting.lanes_in_place:
        there = scalar.fetch(m.f["steps"], k)
        return [[code.load(code.at(start, scalar.select(here, there, at)))] for start, here in m.vector_starts]
    base = code.at(m.f["lanes"], at)
    return [[code.load(code.at(base, (v * parts + p) * t.width)) for p in range(parts)] for v in range(m.vectors)]


def _from_codes(m: Micro, k: Value) -> list[list[Value]]:
    """The same from codes, which follow each other in the bits of their lane (packing/layout.py)."""
    t, fmt, scalar, code = m.setting.tile, m.setting.conversion("lanes").format, m.f.scalar, m.code
    bits, parts = code_bits(fmt), m.setting.parts("lanes")
    step = t.vectors * parts * bits
    begin = scalar.i64("muli", k, step)

    def number(n: int) -> Value:
        first: int | Value
        if step % 32 == 0:
            (word, first), base = divmod(n * bits, 32), scalar.i64("muli", k, step // 32 * t.width)
            at = code.at(code.at(m.f["lanes"], base), word * t.width)
        else:
            place = scalar.i64("addi", begin, n * bits)
            at = code.at(m.f["lanes"], scalar.i64("muli", scalar.i64("shrui", place, 5), t.width))
            first = code.broadcast(scalar.cast("trunci", scalar.i64("andi", place, 31), "i32"))
        low = code.load(at, element="i32")
        goes_on = first + bits > 32 if isinstance(first, int) else 32 % bits != 0
        return emit_unpacked(code, low, code.load(code.at(at, t.width), element="i32") if goes_on else None, first, fmt)

    return [[number(v * parts + p) for p in range(parts)] for v in range(m.vectors)]


def panels(m: Micro, k: Value, vector: Value | None = None) -> tuple[list[list[Value]], list[list[Value]]]:
    """The values of step `k`: of the rows, in all lanes, [row][part], and of the lanes, [vector][part].

    vector: as for `row_places`.
    """
    places = row_places(m, k, vector)
    lanes = lane_values(m, k)
    return [[m.code.splat(at) for at in parts] for parts in places], lanes


def scaled(m: Micro, lanes: list[list[Value]]) -> list[list[Value]]:
    """The lanes times the scale of the cheap sequence; so are all products then."""
    if m.scale == 1:
        return lanes
    code = m.code
    return [[code.binary("mulf", part, code.f32(m.scale)) for part in parts] for parts in lanes]


@dataclass(frozen=True)
class Datapath:
    """The functions of a datapath. Those that a `Setting` is passed to answer a question, the others append code.

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
    around: the context in which a micro-kernel is called.
    dot: how many steps of k one word of the packed operands holds, which one instruction takes; 0 if they are f32.
    additions: how many additions of a multiply-add can be counted. addends: those of one step, as pairs of what is
    added, both in binary32; the last one adds the product to C. None: `leave` counts them.
    in_place: whether segments and walks are the default ones, so that steps can be taken elsewhere too: on operands
    that are converted as they are read (unpacked_row.py), and for the last lanes by a micro-kernel of their own.
    """

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
    enter: Callable[[Micro, Segment], Accumulators] = load_tile
    walk: Callable[[Micro, Value, Value, Accumulators], Accumulators] = one_by_one
    leave: Callable[[Micro, Segment, Accumulators], None] = store_tile
    finish: Callable[[Setting, str], str] | None = None
    additions: Callable[[Fma], int] = _no_additions
    addends: Addends | None = None
    in_place: bool = False
    around: Callable[[Function, Setting], AbstractContextManager[Any]] = _no_mode
    dot: Callable[[Setting], int] = _none
