"""Panels of lanes of a task that keeps all of them: packed, or where the operand is, which tiles of few rows read."""

from __future__ import annotations

from numc.passes.kernels.abi import SCATTERED
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.frame import Block, Frame
from numc.passes.kernels.tasks.interface import context, run_from
from numc.passes.kernels.tasks.panels import Panel

# As many panels of rows read lanes where they are: each does so anew, and lines of memory that are a large power of two
# apart do not stay in the cache together.
_FEW_PANELS = 4


def kept(frame: Frame, block: Block, j: Value) -> Value:
    """Where a task that keeps its lanes packs the panel from `j` on."""
    f, kernel = frame.f, frame.task.kernel
    number = f.i64("divui", f.i64("subi", j, block.j0), kernel.tile.lanes)
    words = layout(kernel, "lanes").panel_words(kernel.tile.k_block)
    return f.at(frame.buffers["lanes"], f.i64("muli", number, words))


def where_they_are(frame: Frame, block: Block, j: Value) -> Value:
    """Whether tiles read the lanes from `j` on in place: packing them takes longer than the products of few rows."""
    f, t, every = frame.f, frame.task.kernel.tile, frame.f.number(frame.task.kernel.tile.lanes)
    (steps,) = context(f, "b_step")
    rows = f.i64("subi", block.i_end, block.i0)
    few = f.compare("ule", rows, f.number(_FEW_PANELS * t.rows))
    whole = f.compare("eq", f.i64("remui", rows, t.rows), f.number(0))
    there = f.i64("minui", run_from(f, frame.words["lane_run"], j), f.i64("subi", block.j_end, j))
    found = f.compare("ne", _dense(frame, j), f.number(SCATTERED))
    for each in (few, whole, f.compare("ne", steps, f.number(0)), f.compare("uge", there, every), frame.one_block):
        found = f.binary("andi", found, each)
    return found


def _dense(frame: Frame, j: Value) -> Value:
    """Where the lanes from `j` on begin, if they are adjacent."""
    f = frame.f
    (dense,) = context(f, "lane_dense")
    return f.fetch(dense, f.i64("divui", j, frame.task.kernel.tile.lanes))


def kept_or_in_place(frame: Frame, block: Block, j: Value, count: Value) -> Panel:
    """The panel of `count` lanes from `j` on, of a task that keeps its lanes or reads them in place."""
    f, task = frame.f, frame.task
    limits, packed = [f.int(0), f.int(0)], kept(frame, block, j)
    if not task.reads_in_place:
        return Panel(j, count, packed, limits)
    in_place = where_they_are(frame, block, j)
    (steps,) = context(f, "b_step")
    there = f.at(block.unpacked, f.select(in_place, _dense(frame, j), f.number(0)))
    step = f.select(in_place, steps, f.number(layout(task.kernel, "lanes").step_words))
    return Panel(j, count, f.select(in_place, there, packed), limits, [step])
