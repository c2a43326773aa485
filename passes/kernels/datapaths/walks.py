"""The ordinary way through a block of k: accumulators from memory and back, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Drawn, Micro, Segment
from numc.passes.kernels.datapaths.reads import (
    RowValues,
    fetch_ahead,
    lane_values,
    panels,
    row_values,
    row_vectors,
    scaled,
    vector_of,
)
from numc.passes.kernels.ssa import Value

_LINE = 64  # bytes of a cache line


def load_tile(m: Micro, segment: Segment) -> Accumulators:
    """The accumulators from memory, scaled."""
    code, accumulators = m.code, []
    for offset in m.places:
        value = code.load(code.at(m.f["tile"], offset))
        accumulators.append(value if m.scale == 1 else code.binary("mulf", value, code.f32(m.scale)))
    return accumulators


def store_tile(m: Micro, segment: Segment, values: Accumulators) -> None:
    """The accumulators to memory, scaled back."""
    code = m.code
    for offset, value in zip(m.places, values, strict=True):
        back = value if m.scale == 1 else code.binary("mulf", value, code.f32(1 / m.scale))
        code.store(back, code.at(m.f["tile"], offset))


def one_by_one(m: Micro, first: Value, end: Value, values: Accumulators) -> Accumulators:
    """The loop over steps of k in ascending order."""
    f, s = m.f, m.setting
    is_whole = (m.rows, m.vectors) == (s.tile.rows, s.tile.vectors)
    if _has_rows_in_registers(m):
        first, values = _whole_vectors(m, first, end, values)
    elif s.instructions.unrolled > 1 and is_whole and s.fma.is_one_fma:
        first, values = _several(m, first, end, values)
    elif m.datapath.segment(s) is None and not s.lanes.in_place:
        # Not for segments, which are shorter, nor if addresses of lanes have taken the registers that this needs.
        return by_vectors(m, first, end, values, partial(one_step, m))
    with f.carry(first, end, 1, values) as loop:
        loop.next = one_step(m, loop.index, loop.values)
    return loop.results


def _has_rows_in_registers(m: Micro) -> bool:
    """Whether a vector of each row stays in a register for as many steps as it has: accumulators and lanes have others.

    Three are left for what a step computes.
    """
    s, parts = m.setting, m.setting.parts("rows")
    taken = (m.rows + m.vectors) * parts + m.rows * m.vectors + 3
    return s.instructions.by_lane and m.datapath.segment(s) is None and taken <= s.instructions.registers


def _whole_vectors(m: Micro, first: Value, end: Value, values: Accumulators) -> tuple[Value, Accumulators]:
    """The loop over whole vectors of packed rows, which a block begins with, and the first step that is left."""
    f, width = m.f, m.setting.tile.width
    rest = vector_of(m, end)
    with f.carry(first, rest, width, values) as loop:
        sums: Accumulators = loop.values
        for n, rows in enumerate(row_vectors(m, loop.index)):
            sums = one_step(m, f.i64("addi", loop.index, n), sums, rows=rows, ahead=_begins_line(m, n))
        loop.next = sums
    return rest, loop.results


def _several(m: Micro, first: Value, end: Value, values: Accumulators) -> tuple[Value, Accumulators]:
    """The loop over steps that follow each other without a jump, and the first one that is left."""
    f, unrolled = m.f, m.setting.instructions.unrolled
    rest = f.i64("subi", end, f.i64("remui", f.i64("subi", end, first), unrolled))
    with f.carry(first, rest, unrolled, values) as loop:
        accumulators: Accumulators = loop.values
        for n in range(unrolled):
            accumulators = one_step(m, f.i64("addi", loop.index, n), accumulators, ahead=_begins_line(m, n))
        loop.next = accumulators
    return rest, loop.results


def _begins_line(m: Micro, n: int) -> bool:
    """Whether what step `n` of several prefetches is in another line than what the one before does."""
    share = 4 * m.setting.tile.rows * m.setting.parts("rows")
    return n * share // _LINE != (n - 1) * share // _LINE


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


def one_step(
    m: Micro,
    k: Value,
    values: Accumulators,
    vector: Value | None = None,
    *,
    rows: RowValues | None = None,
    ahead: bool = True,
) -> list[Value]:
    """One step of k on every accumulator. vector, rows: as for `panels`. ahead: with a prefetch."""
    code = m.code
    if ahead:
        fetch_ahead(m, k)
    drawn = m.drawn(k)
    if m.together > 1:
        return _some_together(m, k, values, drawn, rows or row_values(m, k, vector))
    of_rows, lanes = panels(m, k, vector, rows)
    lanes = scaled(m, lanes)
    accumulators = []
    for n, c in enumerate(values):
        a, b = m.setting.ordered(of_rows[n // m.vectors], lanes[n % m.vectors])
        accumulators.append(m.apply(code, a, b, c, drawn[n]))
    return accumulators


def _some_together(m: Micro, k: Value, values: Accumulators, drawn: Sequence[Drawn], row: RowValues) -> list[Value]:
    """One step of k on `Datapath.together` accumulators after the other ones."""
    code, size = m.code, m.together
    lanes = scaled(m, lane_values(m, k))
    rows: list[list[Value]] = []

    def step(n: int) -> Value:
        r, v = divmod(n, m.vectors)
        a, b = m.setting.ordered(rows[r], lanes[v])
        return m.apply(code, a, b, values[n], drawn[n])

    accumulators: list[Value] = []
    for first in range(0, len(values), size):
        if first:
            lane = lanes[first % m.vectors]
            *accumulators[-size:], lane[0] = m.setting.instructions.barrier(code, [*accumulators[-size:], lane[0]])
        end = min(first + size, len(values))
        rows += [row(r) for r in range(len(rows), -(-end // m.vectors))]
        accumulators += m.f.in_turns([partial(step, n) for n in range(first, end)])
    return accumulators


#: Datapaths of steps are this one with their own step, and what else they have.
PLAIN = Datapath(enter=load_tile, walk=one_by_one, leave=store_tile)
