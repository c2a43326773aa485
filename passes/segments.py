"""Vectors of an operand whose lanes are not adjacent in memory, read as segments by masked loads.

The runtime cuts the offsets along the lanes into segments of adjacent elements, or of every other one (a convolution of
stride 2); runtime/src/contract.cpp has the other half. Lanes that are not there read as +0, and no memory is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numc.passes.code import Function

# The flag of a mask that has a bit for each element passed, those between the lanes included.
EVERY_OTHER = 1 << 62
# What a function takes to read by segments: the first segment of each vector, then offset and mask of each segment.
ARGUMENTS = ("%first", "%segment", "%masks")

Read = Callable[[str], str]


def by_segments(
    f: Function, width: int, number: str, kinds: Sequence[str], body: Callable[[Read], list[str]]
) -> list[str]:
    """Append code that reads vector `number`; `f` has the ARGUMENTS. Returns the values of `body`, of types `kinds`.

    `body` is called once for every way to read: it gets what appends the load of the vector's lanes, given the address
    that offsets count from. What does not depend on that address stands before the body's code.
    """
    s0 = f.fetch("%first", number)
    count = f.i64("subi", f.fetch("%first", f.i64("addi", number, 1)), s0)
    # A load that is masked out entirely is cheap where there is memory, and very slow where there is none.
    some = f.i64("muli", s0, f.i64("minui", count, 1))
    cases: list[tuple[str, Callable[[], Read]]] = [
        (_is_flagged(f, some), lambda: _at_once(f, width, s0, count, some, 3, 2 * width)),
        *((f.compare("ule", count, f.number(n), "i64"), _up_to(f, width, s0, count, some, n)) for n in (1, 2, 4)),
    ]

    def choose(n: int) -> list[str]:
        if n == len(cases):
            return body(_one_by_one(f, width, s0, count))
        condition, reader = cases[n]
        found = f.several(f"scf.if {condition} -> ({', '.join(kinds)}) {{", len(kinds))
        f.line(f"scf.yield {', '.join(body(reader()))} : {', '.join(kinds)}")
        f.line("} else {")
        f.line(f"scf.yield {', '.join(choose(n + 1))} : {', '.join(kinds)}")
        f.line("}")
        return found

    return choose(0)


def _is_flagged(f: Function, segment: str) -> str:
    return f.compare("uge", f.fetch("%masks", segment), f.number(EVERY_OTHER), "i64")


def _up_to(f: Function, width: int, s0: str, count: str, some: str, most: int) -> Callable[[], Read]:
    return lambda: _at_once(f, width, s0, count, some, most, width)


def _at_once(f: Function, width: int, s0: str, count: str, some: str, most: int, taken: int) -> Read:
    """Up to `most` segments, each out of `taken` elements; `some` is a segment that exists in any case."""
    starts, masks = [], []
    for n in range(most):
        there = f.compare("ugt", count, f.number(n), "i64")
        s = f.select(there, f.i64("addi", s0, n), some, "i64")
        starts.append(f.fetch("%segment", s))
        masks.append(_mask(f, f.select(there, f.fetch("%masks", s), f.number(0), "i64"), taken))

    def read(origin: str) -> str:
        found = _zeros(f, taken)
        for start, mask in zip(starts, masks, strict=True):
            found = _load(f, f.at(origin, start), mask, found, taken)
        if taken == width:
            return found
        lanes = ", ".join(str(n) for n in range(0, taken, 2))
        return f.op(f"llvm.shufflevector {found}, {found} [{lanes}] : vector<{taken}xf32>")

    return read


def _one_by_one(f: Function, width: int, s0: str, count: str) -> Read:
    end = f.i64("addi", s0, count)

    def read(origin: str) -> str:
        zeros = _zeros(f, width)
        with f.carrying(f"%s = {s0} to {end} step {f.number(1)}", {"%so_far": zeros}, f"vector<{width}xf32>") as found:
            mask = _mask(f, f.fetch("%masks", "%s"), width)
            more = _load(f, f.at(origin, f.fetch("%segment", "%s")), mask, "%so_far", width)
            f.line(f"scf.yield {more} : vector<{width}xf32>")
        return found[0]

    return read


def _zeros(f: Function, width: int) -> str:
    return f.op(f"arith.constant dense<0.0> : vector<{width}xf32>")


def _mask(f: Function, word: str, width: int) -> str:
    bits = f.cast("trunci", word, "i64", f"i{width}")
    return f.op(f"llvm.bitcast {bits} : i{width} to vector<{width}xi1>")


def _load(f: Function, address: str, mask: str, before: str, width: int) -> str:
    kinds = f"(!llvm.ptr, vector<{width}xi1>, vector<{width}xf32>) -> vector<{width}xf32>"
    return f.op(f"llvm.intr.masked.load {address}, {mask}, {before} {{alignment = 4 : i32}} : {kinds}")
