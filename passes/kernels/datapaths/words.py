"""Words of packed operands: several successive steps of k of one row or lane, which one instruction takes together."""

from __future__ import annotations

from numc.passes.kernels.datapaths.datapath import Micro
from numc.passes.kernels.ssa import Value


def row_vector(m: Micro, k: Value) -> tuple[Value, Value]:
    """Where the vector of row 0 that holds step `k` begins, and the place of `k` in it."""
    t, f = m.setting.tile, m.f
    within = f.i64("andi", k, t.width - 1)
    place = f.i64("muli", f.i64("subi", k, within), t.rows)
    return f.at(f["rows"], place), within


def words(m: Micro, k: Value, count: int, *, full: bool = False) -> tuple[list[Value], list[Value]]:
    """The words of `count` steps from `k` on, as i32: of the rows, in all lanes, and of the vectors of lanes.

    full: the vectors of rows have no room between words.
    """
    t, f, code = m.setting.tile, m.f, m.code
    row, within = row_vector(m, f.i64("divui", k, count) if full else k)
    row = f.at(row, within if full else f.i64("divui", within, count))
    lane = f.at(f["lanes"], f.i64("muli", f.i64("divui", k, count), t.lanes))
    lanes = [code.load(f.at(lane, v * t.width), element="i32") for v in range(m.vectors)]
    return [code.splat(f.at(row, r * t.width), "i32") for r in range(m.rows)], lanes
