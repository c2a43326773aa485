"""The prefetches of a micro-tile while it is computed: packed lanes that come next, or the next panel of rows.

Weights that are packed when the program is built come from memory, and every panel of them is read by the first rows of
a block. The rows of the panel before fetch it, each a share; processors would notice too late where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.packing.layout import stored_layout
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.frame import Block, Frame
from numc.passes.kernels.tasks.panels import Panel, packed_places


def ahead(frame: Frame, block: Block, rows: Panel, lanes: Panel) -> Sequence[Value]:
    """The addresses that a tile tells its micro-kernel to fetch, if that does: as `Kernel.extra` lists it."""
    f, task, kernel = frame.f, frame.task, frame.task.kernel
    if not kernel.fetches_ahead:
        return []
    next_rows = f.at(rows.data, frame.row_pitch)
    if task.ready != "lanes":
        return [next_rows]
    # A micro-kernel fetches as much as its rows take, in f32 numbers.
    each = kernel.tile.k_block * kernel.parts("rows")
    fetched = f.i64("muli", f.i64("subi", rows.first, block.i0), each)
    whole = f.number(stored_layout(kernel, "lanes").block_words(kernel.tile.k_block))
    return [f.select(f.compare("ult", fetched, whole), f.at(_next_lanes(frame, block, lanes), fetched), next_rows)]


def _next_lanes(frame: Frame, block: Block, lanes: Panel) -> Value:
    """The panel that is read after `lanes`: of this block of k, of the next one, or of the next task."""
    f, task, size = frame.f, frame.task, frame.task.kernel.tile.lanes
    after = f.i64("addi", lanes.first, size)
    ends = f.compare("uge", after, block.j_end)
    goes_on = f.binary("andi", ends, f.negated(block.is_last))
    panel = f.i64("divui", f.select(goes_on, block.j0, after), size)
    next_block = f.select(block.is_last, f.number(0), f.i64("addi", block.number, 1))
    number = f.select(ends, next_block, block.number)
    return packed_places(f, task, frame.words["b"], start=block.b_start, panel=panel, kb=number)[0]
