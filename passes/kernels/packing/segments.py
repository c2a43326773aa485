"""Vectors of an operand whose lanes are not adjacent in memory, read as segments by masked loads.

The runtime cuts the offsets along the lanes into segments of adjacent elements, or of every other, third or fourth one
(a convolution of such a stride; runtime/src/kernels/offset_tables.cpp). Lanes that do not exist read as +0, and no
memory is touched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from numc.passes.kernels.abi import EVERY_OTHER, MOST_STRIDED_SEGMENTS
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.setting import Adjacency, Setting
from numc.passes.kernels.ssa import Type, Value

# The arguments of a function that reads by segments: the first segment of each vector, offset and mask of each segment.
ARGUMENTS = ("first", "segment", "masks")

Read = Callable[[Value], Value]
Case = tuple[Value, Callable[[], Read]]


def by_segments(
    f: Function,
    setting: Setting,
    side: str,
    number: Value,
    kinds: Sequence[Type | str],
    body: Callable[[Read], Sequence[Value]],
    table: Sequence[Value] | None = None,
) -> Sequence[Value]:
    """Append code that reads vector `number` of an operand by a table; returns what `body` returns, of types `kinds`.

    table: the values of ARGUMENTS; by default the arguments of `f` with these names.
    `body` is called once for every way to read: it gets what appends the load of the vector's lanes, given the address
    that offsets count from. What does not depend on that address stands before the body's code.
    """
    width, adjacency = setting.tile.width, setting.access(side).adjacency
    segments = _Segments(f, width, number, table or [f[name] for name in ARGUMENTS], setting.element(side))

    def choose(cases: list[Case], last: Callable[[], Read]) -> Sequence[Value]:
        if not cases:
            return body(last())
        (condition, reader), *others = cases
        with f.choose(condition, *kinds) as chosen:
            with chosen.then():
                chosen.next = list(body(reader()))
            with chosen.otherwise():
                chosen.next = list(choose(others, last))
        return chosen.results

    if adjacency == Adjacency.NONE:
        return body(segments.apart())
    if adjacency.stride > 2:
        taken = adjacency.stride * width
        return choose(segments.few(taken, 1, 2), functools.partial(segments.one_by_one, taken))
    if adjacency == Adjacency.ALL:
        return choose([segments.whole_case()], functools.partial(segments.at_once, width, 1))
    flagged = f.compare("uge", segments.first_mask(), f.number(EVERY_OTHER))
    whole = segments.whole_case()
    with f.choose(flagged, *kinds) as choice:
        with choice.then():
            more = functools.partial(segments.at_once, 2 * width, MOST_STRIDED_SEGMENTS)
            choice.next = list(choose(segments.few(2 * width, 1), more))
        with choice.otherwise():
            cases = [whole, *segments.few(width, 1, 2, 4)]
            choice.next = list(choose(cases, functools.partial(segments.one_by_one, width)))
    return choice.results


def adjacent(f: Function, width: int, number: Value, table: Sequence[Value]) -> tuple[Value, Value]:
    """Where the lanes of vector `number` begin, and whether all of them are there and adjacent."""
    return _Segments(f, width, number, table, "f32").whole()


class _Segments:
    """The segments of one vector, and the ways to read them."""

    def __init__(self, f: Function, width: int, number: Value, table: Sequence[Value], element: str) -> None:
        self.f, self.width, self.element = f, width, element
        firsts, self.starts, self.masks = table
        self.first = f.fetch(firsts, number)
        self.count = f.i64("subi", f.fetch(firsts, f.i64("addi", number, 1)), self.first)
        # A load that is masked out entirely is cheap where there is memory, and very slow where there is none: segment
        # 0 of the table stands in for one that does not exist.
        self.some = f.i64("muli", self.first, f.i64("minui", self.count, 1))

    def few(self, taken: int, *counts: int) -> list[Case]:
        """The cases of up to so many segments, each out of `taken` elements."""
        f = self.f
        return [(f.compare("ule", self.count, f.number(n)), functools.partial(self.at_once, taken, n)) for n in counts]

    def first_mask(self) -> Value:
        """The mask of the first segment, or of any other one if there is none."""
        return self.f.fetch(self.masks, self.some)

    def at_once(self, taken: int, most: int) -> Read:
        """Up to `most` segments, each out of `taken` elements."""
        f = self.f
        segments = [(start, _mask(f, bits, taken)) for start, bits in map(self._segment, range(most))]

        def read(origin: Value) -> Value:
            code = f.lanes(taken)
            lanes = code.zero(self.element)
            for start, mask in segments:
                lanes = self._load(code, f.at(origin, start, self.element), mask, lanes)
            return self._every(code, lanes)

        return read

    def _segment(self, n: int) -> tuple[Value, Value]:
        """Offset and mask of segment `n`; an empty mask if there is none."""
        f = self.f
        if n == 0:
            index, there = self.some, f.compare("ne", self.count, f.number(0))
        else:
            there = f.compare("ugt", self.count, f.number(n))
            index = f.select(there, f.i64("addi", self.first, n), self.some)
        return f.fetch(self.starts, index), f.select(there, f.fetch(self.masks, index), f.number(0))

    def whole(self) -> tuple[Value, Value]:
        """The offset of one segment of all lanes, and whether that is what there is."""
        f, width = self.f, self.width
        start = f.fetch(self.starts, self.some)
        full = f.compare("eq", f.fetch(self.masks, self.some), f.number((1 << width) - 1))
        is_whole = f.binary("andi", full, f.compare("eq", self.count, f.number(1)))
        return start, is_whole

    def whole_case(self) -> Case:
        """The case of one segment of all lanes, which is read without a mask."""
        f, (start, is_whole) = self.f, self.whole()
        read = lambda origin: self._load(f.lanes(self.width), f.at(origin, start, self.element))  # noqa: E731
        return is_whole, lambda: read

    def apart(self) -> Read:
        """A segment for each lane: elements that are read alone."""
        f, last = self.f, self.f.i64("maxsi", self.f.i64("subi", self.count, 1), 0)
        # What is not there has the element of the last lane that is.
        numbers = [f.i64("minsi", last, n) for n in range(self.width)]
        offsets = [f.i64("addi", f.fetch(self.starts, f.i64("addi", self.some, n)), n) for n in numbers]
        there = lanes_below(f, self.width, self.count)

        def read(origin: Value) -> Value:
            lanes = [self._load(f, f.at(origin, offset, self.element)) for offset in offsets]
            return f.lanes(self.width).select(there, f.gathered(lanes), f.lanes(self.width).zero(self.element))

        return read

    def one_by_one(self, taken: int) -> Read:
        """Any number of segments, each out of `taken` elements."""
        f, code = self.f, self.f.lanes(taken)

        def read(origin: Value) -> Value:
            with f.carry(self.first, f.i64("addi", self.first, self.count), 1, [code.zero(self.element)]) as loop:
                mask = _mask(f, f.fetch(self.masks, loop.index), taken)
                at = f.at(origin, f.fetch(self.starts, loop.index), self.element)
                loop.next = [self._load(code, at, mask, loop.values[0])]
            return self._every(code, loop.results[0])

        return read

    def _every(self, code: Code, taken: Value) -> Value:
        """The lanes among the elements that were taken."""
        stride = code.width // self.width
        return taken if stride == 1 else code.shuffle(taken, range(0, code.width, stride))

    def _load(self, code: Code, address: Value, mask: Value | None = None, otherwise: Value | None = None) -> Value:
        element_type = self.element
        return code.load(address, mask, element_type, otherwise, alignment=Type(element_type).bits // 8)


def _mask(f: Function, word: Value, width: int) -> Value:
    return f.reinterpret(word if width == 64 else f.cast("trunci", word, f"i{width}"), Type("i1", width))


def lanes_below(f: Function, width: int, count: Value) -> Value:
    """The mask of the first `count` lanes, up to all of them."""
    return _mask(f, f.i64("shrui", (1 << width) - 1, f.i64("subi", width, count)), width)
