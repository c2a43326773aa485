"""Panels of lanes that a task packs itself, or reads where the operand is.

If a product is known to have few rows, its micro-kernels find every vector of lanes by an address, and only those that
are not adjacent are packed (`Kernel.lanes.in_place`). In others, the tiles that stay in registers read whole panels in
place if the rows of a run are few, and if successive steps of k are equally far apart (`Task.reads_in_place`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numc.passes.kernels.abi import SCATTERED
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.frame import Block, Frame
from numc.passes.kernels.tasks.interface import context, run_from
from numc.passes.kernels.tasks.panels import Panel, pack_lanes, place_lanes

# As many panels of rows read lanes where they are: each does so anew, and lines of memory that are a large power of two
# apart do not stay in the cache together.
_FEW_PANELS = 4


def room(frame: Frame, block: Block, j: Value, count: Value) -> Panel:
    """Where this task packs the panel of `count` lanes from `j` on: all panels in one place, or each in its own."""
    f, task, t = frame.f, frame.task, frame.task.kernel.tile
    number = f.i64("divui", f.i64("subi", j, block.j0), t.lanes) if task.keeps_lanes else f.number(0)
    words = layout(task.kernel, "lanes").panel_words(t.k_block)
    data = f.at(frame.buffers["lanes"], f.i64("muli", number, words))
    places = []
    if task.kernel.lanes.in_place:
        vectors = f.at(frame.buffers["vectors"], f.i64("muli", number, 2 * t.vectors), "i64")
        (steps,) = context(f, "b_k")
        places = [vectors, f.at(steps, block.k0, "i64")]
    return Panel(j, count, data, [f.int(0), f.int(0)], places)


def pack(frame: Frame, block: Block, panel: Panel) -> Sequence[Value]:
    """Pack a panel of lanes, or what of it is not read in place; returns its limits."""
    f, kernel = frame.f, frame.task.kernel
    which = block.unpacked, f.i64("divui", panel.first, kernel.tile.lanes), block.k0, block.kc, panel.data
    if kernel.lanes.in_place:
        place_lanes(f, kernel, *which, panel.places[0])
    elif frame.task.reads_in_place:
        with f.when(f.negated(_is_in_place(frame, block, panel.first))):
            pack_lanes(f, kernel, *which)
    else:
        return pack_lanes(f, kernel, *which)
    return panel.limits


def kept(frame: Frame, block: Block, j: Value, count: Value) -> Panel:
    """The panel of `count` lanes from `j` on of a task that keeps all of its lanes."""
    f, task, panel = frame.f, frame.task, room(frame, block, j, count)
    if not task.reads_in_place:
        return panel
    in_place = _is_in_place(frame, block, j)
    (steps,) = context(f, "b_step")
    there = f.at(block.unpacked, f.select(in_place, _dense(frame, j), f.number(0)))
    step = f.select(in_place, steps, f.number(layout(task.kernel, "lanes").step_words))
    return replace(panel, data=f.select(in_place, there, panel.data), places=[step])


def _is_in_place(frame: Frame, block: Block, j: Value) -> Value:
    """Whether tiles read the lanes from `j` on in place: packing them takes longer than the products of few rows."""
    f, t, every = frame.f, frame.task.kernel.tile, frame.f.number(frame.task.kernel.tile.lanes)
    (steps,) = context(f, "b_step")
    rows = f.i64("subi", block.i_end, block.i0)
    few = f.compare("ule", rows, f.number(_FEW_PANELS * t.rows))
    whole = f.compare("eq", f.i64("remui", rows, t.rows), f.number(0))
    there = f.i64("minui", run_from(f, frame.words["lane_run"], j), f.i64("subi", block.j_end, j))
    in_place = f.compare("ne", _dense(frame, j), f.number(SCATTERED))
    for each in (few, whole, f.compare("ne", steps, f.number(0)), f.compare("uge", there, every), frame.one_block):
        in_place = f.binary("andi", in_place, each)
    return in_place


def _dense(frame: Frame, j: Value) -> Value:
    """Where the lanes from `j` on begin, if they are adjacent."""
    f = frame.f
    (dense,) = context(f, "lane_dense")
    return f.fetch(dense, f.i64("divui", j, frame.task.kernel.tile.lanes))
