"""Counting in micro-kernels: histograms of exponent differences (swamping), at a few instructions an addition.

The difference d = abs(exponent(p) - exponent(c)) of an addition becomes the word ``1 << min(d, 31)``, or 0 unless both
are finite and not zero. How often each bit of each lane was set is counted in planes, of which plane n has the bits of
weight 2^n: three words of weight 2^n are added to one of 2^n and one of 2^(n+1) (a carry-save adder). The low planes
are in registers while steps are counted; their carries are stored, and added to the high planes when there are many.
Each task has such counters (`task_words`), and the runtime adds them up in the end
(runtime/src/kernels/addition_counters.cpp).

Sampled are the steps of k with ``k % stride == (k // stride + offset) % stride``, in all outputs: a choice that depends
on nothing but k. One step of each run of `stride` is looked at, a place later from run to run, so that no period of the
reduction is met again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from numc.numerics.operators import Fma
from numc.passes.kernels.abi import HIGH_PLANES, LOW_PLANES
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Guard, Micro
from numc.passes.kernels.datapaths.reads import fetch_ahead, lane_values, row_places, scaled
from numc.passes.kernels.datapaths.walks import one_by_one
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.setting import Setting
from numc.passes.kernels.ssa import PTR, Value

# The arguments of a counting micro-kernel: where the task counts, and which steps are sampled.
ARGUMENTS: Mapping[str, str] = {"counts": PTR, "stride": "i64", "offset": "i64"}
LOW, PLANES = LOW_PLANES, HIGH_PLANES  # together: a task may look at 2^44 additions in a lane
_MERGED = 64  # waiting carries that are added to the high planes at a time
NEVER = 1 << 62  # a stride so long that no step is looked at


def task_words(width: int, waiting: int) -> int:
    """The 32-bit words in which a task counts: low planes, high planes, the number of waiting carries, and those."""
    return (LOW + PLANES + 1 + waiting) * width


def waiting(additions: int, accumulators: int, steps: int) -> int:
    """The most carries that wait: those of all `steps` of a block, rounded up to what is merged at a time."""
    return -(-carries(additions, accumulators) * steps // _MERGED) * _MERGED


def carries(additions: int, accumulators: int) -> int:
    """The number of carries of one step of k, for vectors of accumulators with so many additions each."""
    return -(-accumulators * additions // (1 << LOW))


def counting(base: Datapath) -> Datapath:
    """The datapath `base`, with its additions counted."""

    def prepared(m: Micro) -> object:
        kept = base.prepare(m)
        _make_room(m)
        return kept

    chosen = base.walk if base.addends is None else walk
    return replace(base, arguments=(*base.arguments, *ARGUMENTS.items()), prepare=prepared, walk=chosen)


class Planes:
    """Planes, while code is appended to `code` that adds words to them.

    values: the planes. carries: the words that overflow, of twice the weight of the last plane.
    """

    def __init__(self, code: Code, isa: InstructionSet, values: Sequence[Value]) -> None:
        self.values = list(values)
        self.carries: list[Value] = []
        self._code, self._isa = code, isa
        self._waiting: list[Value | None] = [None] * len(self.values)

    def add(self, word: Value, level: int = 0) -> None:
        """Add a word of weight ``2 ** level``."""
        if level == len(self.values):
            self.carries.append(word)
        elif (other := self._waiting[level]) is None:
            self._waiting[level] = word
        else:
            self._waiting[level] = None
            self.values[level], carry = self._isa.full_adder(self._code, self.values[level], other, word)
            self.add(carry, level + 1)

    def finish(self) -> None:
        """Add the words that wait for another one."""
        for level, plane in enumerate(self.values):
            if (word := self._waiting[level]) is not None:
                self._waiting[level] = None
                self.values[level] = self._code.binary("xori", plane, word)
                self.add(self._code.binary("andi", plane, word), level + 1)


def _counts(m: Micro, place: int) -> Value:
    """The address of vector number `place` of what a task counts in."""
    return m.code.at(m.f["counts"], place * m.setting.tile.width)


def _make_room(m: Micro) -> None:
    """Make room for the carries of a block of k, if there is too little."""
    f, s = m.f, m.setting
    additions = m.datapath.additions(s.fma)
    taken = f.fetch(_counts(m, LOW + PLANES), 0)
    after = f.i64("addi", taken, f.i64("muli", f["kc"], carries(additions, m.rows * m.vectors)))
    full = f.compare("sgt", after, f.number(waiting(additions, s.tile.rows * s.tile.vectors, s.tile.k_block)))
    counted = f.compare("slt", f["stride"], f.number(NEVER))
    with f.when(f.binary("andi", full, counted)):
        f.call(f"{m.name}_merge", f["counts"])


def walk(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """The steps of k in ascending order, those that are sampled with their additions counted."""
    f, code = m.f, m.code
    stride, count = f["stride"], len(values)
    base, position = _first_sample(m, first)
    planes_at = [_counts(m, n) for n in range(LOW)]
    planes = [code.load(at, element="i32") for at in planes_at]
    waiting_at = _counts(m, LOW + PLANES)
    carried = [first, base, position, *values, *planes, f.fetch(waiting_at, 0)]
    with f.repeat(carried) as loop:
        loop.going_on(f.compare("slt", loop.before[0], end))
        at, base, position, *state = loop.values
        look = f.i64("minsi", f.i64("addi", base, position), end)
        reached = one_by_one(m, at, look, state[:count])
        kinds = [v.type for v in state]
        with f.choose(f.compare("slt", look, end), *kinds) as choice:
            with choice.then():
                choice.next = _counted_step(m, look, reached, state[count:-1], state[-1])
            with choice.otherwise():
                choice.next = [*reached, *state[count:]]
        after = f.i64("addi", position, 1)
        after = f.select(f.compare("eq", after, stride), f.number(0), after)
        loop.next = [f.i64("addi", look, 1), f.i64("addi", base, stride), after, *choice.results]
    results = loop.results[3:]
    with f.when(f.compare("slt", stride, f.number(NEVER))):
        for at, plane in zip(planes_at, results[count:-1], strict=True):
            code.store(plane, at)
        f.store(results[-1], waiting_at, alignment=8)
    return results[:count]


def _first_sample(m: Micro, first: Value) -> tuple[Value, Value]:
    """The first step that is sampled from step `first` of the block on: where its run begins, and its place in it."""
    f = m.f
    k0, stride, offset = (f[name] for name in ("k0", "stride", "offset"))
    k = f.i64("addi", k0, first)
    run = f.i64("divui", k, stride)
    position = f.i64("remui", f.i64("addi", run, offset), stride)
    begin = f.i64("muli", run, stride)
    is_past = f.compare("ult", f.i64("addi", begin, position), k)
    after = f.i64("addi", position, 1)
    after = f.select(f.compare("eq", after, stride), f.number(0), after)
    next_run = f.i64("addi", begin, stride)
    position = f.select(is_past, after, position)
    return f.i64("subi", f.select(is_past, next_run, begin), k0), position


def _counted_step(m: Micro, k: Value, values: Sequence[Value], planes: Sequence[Value], waiting: Value) -> list[Value]:
    """One step of k with its additions counted; returns accumulators, planes, and how many carries wait then."""
    s, code, isa = m.setting, m.code, m.setting.instructions
    counted = Planes(code, isa, planes)
    fetch_ahead(m, k)
    addends, drawn = m.datapath.addends, m.drawn(k)
    assert addends is not None
    places = row_places(m, k)
    lanes = scaled(m, lane_values(m, k))
    limits = m.datapath.limits(s) if m.fast else None
    reuses = limits is not None and products_are_exact(s.fma, limits)
    sums = list(values)
    rows: list[Value] = []
    for n, c in enumerate(values):
        row, v = divmod(n, m.vectors)
        if v == 0:
            if row:
                before = slice(n - m.vectors, n)
                *sums[before], lanes[0][0] = isa.barrier(code, [*sums[before], lanes[0][0]])
            rows = [code.splat(at) for at in places[row]]
        a, b = s.ordered(rows, lanes[v])
        product = None
        words = []
        for p, q in addends(code, s.fma, a, b, c, drawn[n]):
            words.append(isa.distance_bit(code, p, q))
            product = p
        for word in words:
            counted.add(word)
        sums[n] = m.apply(code, a, b, c, drawn[n], product if reuses else None)
    counted.finish()
    return [*sums, *counted.values, _keep(m.f, s, counted.carries, m.f["counts"], waiting)]


def products_are_exact(fma: Fma, limits: Guard) -> bool:
    """Whether, under its guard, the product of a step is one, a binary32 number, and not rounded."""
    grid = sum(c.format.precision - 1 for c in fma.singles)
    least = sum(c.format.unit_exponent for c in fma.singles)
    return fma.product is None and len(fma.terms) == 1 and grid + 2 <= 24 and max(least, limits.product - grid) >= -149


def _keep(f: Function, s: Setting, words: Sequence[Value], counts: Value, waiting: Value) -> Value:
    """Store carries behind those that wait; how many there are then."""
    code, width = f.lanes(s.tile.width), s.tile.width
    base = code.at(counts, f.i64("muli", waiting, width))
    for n, word in enumerate(words):
        code.store(word, code.at(base, (LOW + PLANES + 1 + n) * width))
    return f.i64("addi", waiting, len(words))


def count_sums(f: Function, s: Setting, sums: Sequence[tuple[Value, Value]]) -> None:
    """Count additions outside of a sampled walk, pairs of p and c, if anything is counted: all are looked at."""
    width, counts = s.tile.width, f["counts"]
    code = f.lanes(width)
    with f.when(f.compare("slt", f["stride"], f.number(NEVER))):
        addresses = [code.at(counts, n * width) for n in range(LOW)]
        planes = Planes(code, s.instructions, [code.load(address, element="i32") for address in addresses])
        for p, c in sums:
            planes.add(s.instructions.distance_bit(code, p, c))
        planes.finish()
        for value, address in zip(planes.values, addresses, strict=True):
            code.store(value, address)
        waiting_at = code.at(counts, (LOW + PLANES) * width)
        after = _keep(f, s, planes.carries, counts, f.fetch(waiting_at, 0))
        f.store(after, waiting_at, alignment=8)


def merge_text(s: Setting, name: str) -> str:
    """The function ``@<name>`` that adds the waiting carries to the high planes: there is none of them afterwards."""
    width, isa = s.tile.width, s.instructions
    f = Function(name, {"counts": PTR})
    code, counts = f.lanes(width), f["counts"]
    waiting_at = code.at(counts, (LOW + PLANES) * width)
    waiting = f.fetch(waiting_at, 0)
    f.store(f.number(0), waiting_at, alignment=8)
    first = code.at(counts, (LOW + PLANES + 1) * width)
    size, none = _MERGED.bit_length(), code.int(0)
    with f.loop(0, waiting, _MERGED) as start:
        words = code.at(first, f.i64("muli", start, width))
        low = Planes(code, isa, [none] * size)
        for n in range(_MERGED):
            at = code.at(words, n * width)
            low.add(code.load(at, element="i32"))
            code.store(none, at)
        low.finish()
        carry = none
        for n in range(PLANES):
            at = code.at(counts, (LOW + n) * width)
            plane = code.load(at, element="i32")
            total, carry = isa.full_adder(code, plane, low.values[n] if n < size else none, carry)
            code.store(total, at)
    return f.function()
