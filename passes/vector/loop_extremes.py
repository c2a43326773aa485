"""Largest and smallest elements of rows, side by side in lanes: neither order matters, nor an element read twice.

Every row has a vector of its own, whose lanes see every so many elements of the row. Rows are transposed once, at the
end, where a sum, whose order is defined, transposes every block of elements (loop_elements.py).
"""

from __future__ import annotations

import math

from numc.passes.buffers.loop_nest import Loop
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.straight import Index
from numc.passes.vector.loop_elements import Elements, Place, columns

# The operations of Nest.extreme, and the operand with which they give the other one.
_NEUTRAL = {"arith.maximumf": -math.inf, "arith.minimumf": math.inf}


def extremes(elements: Elements, name: str, loop: Loop, size: Value, place: Place, lanes: int) -> tuple[Value, Value]:
    """The extremes of the elements along `loop` in as many rows as lanes, and how many elements they are of.

    These are all, `size`, if it is known at compile time; otherwise, less than a vector is left over.
    """
    f, width = elements.code, elements.isa.width
    v = f.lanes(width)
    whole = f.i64("muli", f.i64("divui", size, width), width)

    def seen(rows: list[Value], start: Index) -> list[Value]:
        read = elements.rows(loop, elements.moved(place, loop, f.number(start)), lanes, width)
        return [elements.call([*values, row], place, width)[0] for values, row in zip(read, rows, strict=True)]

    with f.carry(0, whole, width, [v.f32(_NEUTRAL[name])] * lanes) as blocks:
        blocks.next = seen(blocks.values, blocks.index)
    rows, end = blocks.results, whole
    if not loop.count.symbols:
        end = size
        if loop.count.number % width:
            rows = seen(rows, loop.count.number - width)
    while rows[0].type.lanes > lanes:
        half = rows[0].type.lanes // 2
        rows = [_halved(f.lanes(half), name, row) for row in rows]
    vectors = columns(f.lanes(lanes), rows)
    while len(vectors) > 1:
        vectors = [extreme(f, name, *pair) for pair in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0], end


def _halved(f: Code, name: str, row: Value) -> Value:
    parts = [f.shuffle(row, range(n, n + f.width)) for n in (0, f.width)]
    return extreme(f, name, *parts)


def extreme(f: Code, name: str, a: Value, b: Value) -> Value:
    """The larger or the smaller one, in every lane."""
    return f.binary(name.removeprefix("arith."), a, b)
