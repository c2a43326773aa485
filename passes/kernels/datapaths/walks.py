"""The ordinary way through a block of k: accumulators from memory and back, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from numc.passes.kernels.datapaths.datapath import Accumulators, Datapath, Drawn, Micro, Segment
from numc.passes.kernels.datapaths.reads import fetch_ahead, lane_values, panels, row_places, scaled, vector_of
from numc.passes.kernels.ssa import Value

_LINE = 64  # bytes of a cache line


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
    elif m.datapath.segment(s) is None and not s.lanes.in_place:
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


#: Datapaths of steps are this one with their own step, and what else they have.
PLAIN = Datapath(enter=load_tile, walk=one_by_one, leave=store_tile)
