"""The reads of a micro-kernel from its operands, packed or in place: the values of one step of k in registers."""

from __future__ import annotations

from collections.abc import Callable

from numc.passes.kernels.datapaths.datapath import Micro
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.codes import code_bits
from numc.passes.kernels.values.unpacked import emit_scaled, emit_unpacked

#: The arguments that say where rows are, if they may be in place: the offset of each, and the distance of two steps of
#: k of one row that are a vector apart, in vectors.
ROWS_IN_PLACE = {"starts": "!llvm.ptr", "chunk": "i64"}

#: Those that say where lanes are, if vectors of them may be in place: of every vector of the panel the address and
#: whether it is in place, a word each; and the offset of every step of k from such an address.
LANES_IN_PLACE = {"vectors": "!llvm.ptr", "steps": "!llvm.ptr"}

#: That which says how far steps of k of the lanes are apart, if whole panels may be in place.
LANE_STEP = {"lane_step": "i64"}


def fetch_ahead(m: Micro, k: Value) -> None:
    """Prefetch this step's share of the next panel of rows, if the micro-kernel is told where that begins."""
    if "ahead" not in m.f.arguments:
        return
    s, scalar = m.setting, m.f.scalar
    offset = scalar.binary("muli", k, scalar.int(s.tile.rows * s.parts("rows"), "i64"))
    s.instructions.prefetch(m.code, m.f.at(m.f["ahead"], offset))


def row_starts(m: Micro) -> list[Value]:
    """Where the rows begin, if the micro-kernel is told so by `ROWS_IN_PLACE`."""
    if not m.setting.rows.in_place:
        return []
    return [m.f.at(m.f["rows"], m.f.fetch(m.f["starts"], r)) for r in range(m.rows)]


def vector_starts(m: Micro) -> list[tuple[Value, Value]]:
    """Where the vectors of lanes begin, and whether in the operand, if the micro-kernel is told by `LANES_IN_PLACE`."""
    if not m.setting.lanes.in_place:
        return []
    f = m.f
    starts = [f.fetch(f["vectors"], 2 * v, "!llvm.ptr") for v in range(m.vectors)]
    return [(at, f.compare("ne", f.fetch(f["vectors"], 2 * v + 1), f.number(0))) for v, at in enumerate(starts)]


def vector_of(m: Micro, step: Value) -> Value:
    """The first step, or word, of that vector of a packed row which `step` is in."""
    return m.f.i64("subi", step, m.f.i64("andi", step, m.setting.tile.width - 1))


def row_places(m: Micro, k: Value, vector: Value | None = None) -> list[list[Value]]:
    """Where the values of the rows are at step `k`: [row][part] (layout.py says how panels are laid out).

    vector: the first step of that vector of a packed row which `k` is in, if it is known.
    """
    s, scalar, code = m.setting, m.f.scalar, m.code
    t, parts = s.tile, s.parts("rows")
    if vector is None:
        vector = vector_of(m, k)
    within = scalar.binary("subi", k, vector)
    if s.rows.in_place:
        at = scalar.binary("addi", scalar.binary("muli", vector, m.f["chunk"]), within)
        return [[code.at(start, at)] for start in m.row_starts]
    at = scalar.binary("addi", scalar.binary("muli", vector, scalar.int(t.rows * parts, "i64")), within)
    base = code.at(m.f["rows"], at)
    return [[code.at(base, (r * parts + p) * t.width) for p in range(parts)] for r in range(m.rows)]


RowValues = Callable[[int], list[Value]]
"""Appends the parts of a row's value at one step, in all lanes, given the number of the row."""


def row_values(m: Micro, k: Value, vector: Value | None = None) -> RowValues:
    """The values of the rows at step `k`. vector: as for `row_places`."""
    places = row_places(m, k, vector)
    return lambda row: [m.code.splat(at) for at in places[row]]


def row_vectors(m: Micro, vector: Value) -> list[RowValues]:
    """All steps of the vector of packed rows that begins at step `vector`, from one register of each row."""
    code, width = m.code, m.setting.tile.width
    loaded = [[code.load(at) for at in parts] for parts in row_places(m, vector, vector)]

    def at_step(n: int) -> RowValues:
        return lambda row: [code.shuffle(part, [n] * width) for part in loaded[row]]

    return [at_step(n) for n in range(width)]


def lane_values(m: Micro, k: Value) -> list[list[Value]]:
    """The values of the lanes at step `k`: [vector][part]."""
    if m.setting.lanes.codes and not m.setting.lanes.expanded:
        return _from_codes(m, k)
    t, parts, scalar, code = m.setting.tile, m.setting.parts("lanes"), m.f.scalar, m.code
    step = m.f.arguments.get("lane_step") or scalar.int(t.lanes * parts, "i64")
    at = scalar.binary("muli", k, step)
    if m.setting.lanes.in_place:
        there = scalar.fetch(m.f["steps"], k)
        return [[code.load(code.at(start, scalar.select(here, there, at)))] for start, here in m.vector_starts]
    base = code.at(m.f["lanes"], at)
    return [[code.load(code.at(base, (v * parts + p) * t.width)) for p in range(parts)] for v in range(m.vectors)]


def _from_codes(m: Micro, k: Value) -> list[list[Value]]:
    """The values of one step from codes, which follow each other in the bits of their lane (packing/layout.py)."""
    t, fmt, scalar, code, isa = m.setting.tile, m.setting.coded("lanes"), m.f.scalar, m.code, m.setting.instructions
    assert fmt is not None
    bits, parts = code_bits(fmt), m.setting.parts("lanes")
    step = t.vectors * parts * bits
    begin = scalar.i64("muli", k, step)

    def number(n: int) -> Value:
        first: int | Value
        if step % 32 == 0:
            (word, first), base = divmod(n * bits, 32), scalar.i64("muli", k, step // 32 * t.width)
            at = code.at(code.at(m.f["lanes"], base), word * t.width)
        else:
            bit_offset = scalar.i64("addi", begin, n * bits)
            at = code.at(m.f["lanes"], scalar.i64("muli", scalar.i64("shrui", bit_offset, 5), t.width))
            first = code.broadcast(scalar.cast("trunci", scalar.i64("andi", bit_offset, 31), "i32"))
        low = code.load(at, element="i32")
        goes_on = first + bits > 32 if isinstance(first, int) else 32 % bits != 0
        high = code.load(code.at(at, t.width), element="i32") if goes_on else None
        return emit_unpacked(code, (low, high), first, fmt, isa)

    values = [[number(v * parts + p) for p in range(parts)] for v in range(m.vectors)]
    groups = m.setting.scaled_codes("lanes")
    if groups is None:
        return values
    factors = _lane_scales(m, scalar.i64("divui", k, groups.group or t.k_block))
    return [[emit_scaled(code, x, factor, groups)] for (x,), factor in zip(values, factors, strict=True)]


def scales(m: Micro, number: Value) -> tuple[list[Value], list[Value]]:
    """The scales of group `number` of a block, where panels hold elements: of the rows, in all lanes, and of the lanes.

    They are behind the vectors of elements (layout.py).
    """
    t, f, code = m.setting.tile, m.f, m.code
    vector = f.i64("addi", f.i64("ceildivui", f["kc"], t.width), f.i64("divui", number, t.width))
    row = f.at(f["rows"], f.i64("addi", f.i64("muli", vector, t.rows * t.width), f.i64("remui", number, t.width)))
    return [code.splat(f.at(row, r * t.width)) for r in range(m.rows)], _lane_scales(m, number)


def _lane_scales(m: Micro, number: Value) -> list[Value]:
    """Those of the lanes, or what the elements of codes are multiplied by."""
    t, f, code, fmt = m.setting.tile, m.f, m.code, m.setting.coded("lanes")
    before = f.i64("muli", f.rounded_up(f["kc"], 2), t.vectors)
    if m.setting.lanes.codes and not m.setting.lanes.expanded:
        assert fmt is not None
        before = f.i64("ceildivui", f.i64("muli", before, fmt.bits), 32)
    vector = f.i64("addi", before, f.i64("muli", number, t.vectors))
    lane = f.at(f["lanes"], f.i64("muli", vector, t.width))
    return [code.load(f.at(lane, v * t.width)) for v in range(m.vectors)]


def panels(
    m: Micro, k: Value, vector: Value | None = None, rows: RowValues | None = None
) -> tuple[list[list[Value]], list[list[Value]]]:
    """The values of step `k`: of the rows, in all lanes, [row][part], and of the lanes, [vector][part].

    vector: as for `row_places`. rows: what appends the values of the rows, if they are in registers.
    """
    row = rows or row_values(m, k, vector)
    lanes = lane_values(m, k)
    return [row(r) for r in range(m.rows)], lanes


def scaled(m: Micro, lanes: list[list[Value]]) -> list[list[Value]]:
    """The lanes times the scale of the cheap sequence; so are all products then."""
    if m.scale == 1:
        return lanes
    code = m.code
    return [[code.binary("mulf", part, code.f32(m.scale)) for part in parts] for parts in lanes]
