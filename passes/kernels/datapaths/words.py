"""Words of packed operands: several successive steps of k of one row or lane, which one instruction takes together."""

from __future__ import annotations

from numc.passes.kernels.datapaths.datapath import Micro
from numc.passes.kernels.datapaths.reads import vector_of
from numc.passes.kernels.ssa import Value


def row_vector(m: Micro, k: Value, first: Value | None = None) -> tuple[Value, Value]:
    """Where the vector of row 0 that holds step `k` begins, and the place of `k` in it.

    first: the first step of that vector, if it is known.
    """
    f = m.f
    if first is None:
        first = vector_of(m, k)
    return f.at(f["rows"], f.i64("muli", first, m.setting.tile.rows)), f.i64("subi", k, first)


def words(m: Micro, k: Value, count: int) -> tuple[list[Value], list[Value]]:
    """The words of `count` steps from `k` on, as i32: of the rows, in all lanes, and of the vectors of lanes."""
    row, within = row_vector(m, k)
    return _words(m, m.f.at(row, m.f.i64("divui", within, count)), m.f.i64("divui", k, count))


def full_words(m: Micro, word: Value, first: Value) -> tuple[list[Value], list[Value]]:
    """Word number `word` where vectors of rows have no room between words; `first` is the first one of its vector."""
    row, within = row_vector(m, word, first)
    return _words(m, m.f.at(row, within), word)


def _words(m: Micro, row: Value, word: Value) -> tuple[list[Value], list[Value]]:
    t, f, code = m.setting.tile, m.f, m.code
    lane = f.at(f["lanes"], f.i64("muli", word, t.lanes))
    lanes = [code.load(f.at(lane, v * t.width), element="i32") for v in range(m.vectors)]
    return [code.splat(f.at(row, r * t.width), "i32") for r in range(m.rows)], lanes
