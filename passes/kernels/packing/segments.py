"""Vectors of an operand whose lanes are not adjacent in memory, read as segments by masked loads.

The runtime cuts the offsets along the lanes into segments of adjacent elements, or of every other one (a convolution of
stride 2; runtime/src/kernels/offset_tables.cpp). Lanes that are not there read as +0, and no memory is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numc.passes.kernels.abi import EVERY_OTHER, MOST_STRIDED_SEGMENTS
from numc.passes.kernels.builder import Function

# What a function takes to read by segments: the first segment of each vector, then offset and mask of each segment.
ARGUMENTS = ("%first", "%segment", "%masks")

Read = Callable[[str], str]


def by_segments(
    f: Function,
    width: int,
    number: str,
    kinds: Sequence[str],
    body: Callable[[Read], list[str]],
    table: tuple[str, str, str] = ARGUMENTS,
) -> list[str]:
    """Append code that reads vector `number` by a table, ARGUMENTS; returns what `body` returns, of types `kinds`.

    `body` is called once for every way to read: it gets what appends the load of the vector's lanes, given the address
    that offsets count from. What does not depend on that address stands before the body's code.
    """
    first, starts, masks = table
    s0 = f.fetch(first, number)
    count = f.i64("subi", f.fetch(first, f.i64("addi", number, 1)), s0)
    # A load that is masked out entirely is cheap where there is memory, and very slow where there is none.
    some = f.i64("muli", s0, f.i64("minui", count, 1))

    def segment(n: int) -> tuple[str, str]:
        """Offset and mask of segment `n`; an empty mask where there is none."""
        if n == 0:
            s, there = some, f.compare("ne", count, f.number(0), "i64")
        else:
            there = f.compare("ugt", count, f.number(n), "i64")
            s = f.select(there, f.i64("addi", s0, n), some, "i64")
        return f.fetch(starts, s), f.select(there, f.fetch(masks, s), f.number(0), "i64")

    def at_once(most: int, taken: int) -> Read:
        """Up to `most` segments, each out of `taken` elements."""
        found = [(start, _mask(f, bits, taken)) for start, bits in map(segment, range(most))]

        def read(origin: str) -> str:
            lanes = _zeros(f, taken)
            for start, mask in found:
                lanes = _load(f, f.at(origin, start), mask, lanes, taken)
            if taken == width:
                return lanes
            every_other = ", ".join(str(n) for n in range(0, taken, 2))
            return f.op(f"llvm.shufflevector {lanes}, {lanes} [{every_other}] : vector<{taken}xf32>")

        return read

    def whole(origin: str) -> str:
        return f.op(f"llvm.load {f.at(origin, only)} {{alignment = 4 : i64}} : !llvm.ptr -> vector<{width}xf32>")

    def one_by_one(origin: str) -> str:
        vec = f"vector<{width}xf32>"
        bounds, start = f"%s = {s0} to {f.i64('addi', s0, count)} step {f.number(1)}", {"%so_far": _zeros(f, width)}
        with f.carrying(bounds, start, vec) as found:
            mask = _mask(f, f.fetch(masks, "%s"), width)
            more = _load(f, f.at(origin, f.fetch(starts, "%s")), mask, "%so_far", width)
            f.line(f"scf.yield {more} : {vec}")
        return found[0]

    def choose(cases: list[tuple[str, Callable[[], Read]]], last: Callable[[], Read]) -> list[str]:
        if not cases:
            return body(last())
        (condition, reader), *others = cases
        found = f.several(f"scf.if {condition} -> ({', '.join(kinds)}) {{", len(kinds))
        f.line(f"scf.yield {', '.join(body(reader()))} : {', '.join(kinds)}")
        f.line("} else {")
        f.line(f"scf.yield {', '.join(choose(others, last))} : {', '.join(kinds)}")
        f.line("}")
        return found

    def up_to(n: int) -> str:
        return f.compare("ule", count, f.number(n), "i64")

    flagged = f.compare("uge", f.fetch(masks, some), f.number(EVERY_OTHER), "i64")
    only = f.fetch(starts, some)
    full = f.compare("eq", f.fetch(masks, some), f.number((1 << width) - 1), "i64")
    full = f.binary("andi", full, f.compare("eq", count, f.number(1), "i64"), "i1")
    found = f.several(f"scf.if {flagged} -> ({', '.join(kinds)}) {{", len(kinds))
    two = choose([(up_to(1), lambda: at_once(1, 2 * width))], lambda: at_once(MOST_STRIDED_SEGMENTS, 2 * width))
    f.line(f"scf.yield {', '.join(two)} : {', '.join(kinds)}")
    f.line("} else {")
    one = choose(
        [(full, lambda: whole), *((up_to(n), lambda n=n: at_once(n, width)) for n in (1, 2, 4))], lambda: one_by_one
    )
    f.line(f"scf.yield {', '.join(one)} : {', '.join(kinds)}")
    f.line("}")
    return found


def _zeros(f: Function, width: int) -> str:
    return f.op(f"arith.constant dense<0.0> : vector<{width}xf32>")


def _mask(f: Function, word: str, width: int) -> str:
    bits = f.cast("trunci", word, "i64", f"i{width}")
    return f.op(f"llvm.bitcast {bits} : i{width} to vector<{width}xi1>")


def lanes_below(f: Function, width: int, count: str) -> str:
    """The mask of the first `count` lanes, up to all of them."""
    return _mask(f, f.i64("shrui", (1 << width) - 1, f.i64("subi", width, count)), width)


def _load(f: Function, address: str, mask: str, before: str, width: int) -> str:
    kinds = f"(!llvm.ptr, vector<{width}xi1>, vector<{width}xf32>) -> vector<{width}xf32>"
    return f.op(f"llvm.intr.masked.load {address}, {mask}, {before} {{alignment = 4 : i32}} : {kinds}")
