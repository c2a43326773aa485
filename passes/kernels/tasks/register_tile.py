"""Micro-tiles from their initial values to the epilogue in registers, where a step is one FMA and k is one block.

With few steps, storing a tile and loading it again, before and after the micro-kernel, takes as long as the products.
"""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths.datapath import Micro
from numc.passes.kernels.datapaths.reads import LANE_STEP, LANES_IN_PLACE, ROWS_IN_PLACE, row_starts, vector_starts
from numc.passes.kernels.datapaths.walks import one_by_one
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.interface import SELF, Task, load, step, store, stream_places

REGISTER_TILE = f"{SELF}_register_tile"

# What it takes: the context; packed rows and lanes, the panel of rows that comes next; where initial and final
# accumulators are stored as well, or null; steps of k, and where the tile is; where rows and lanes are, if they may
# be in place.
_ARGUMENTS = {
    **dict.fromkeys(("context", "rows", "lanes", "ahead", "seen"), PTR),
    **dict.fromkeys(("kc", "batch", "row", "lane"), "i64"),
}


def register_tile_text(task: Task) -> str:
    """The function that computes a tile without missing rows or lanes, adjacent in every stream."""
    kernel, t = task.kernel, task.kernel.tile
    of_rows = ROWS_IN_PLACE if kernel.rows.in_place else {}
    of_lanes = LANES_IN_PLACE if kernel.lanes.in_place else LANE_STEP if task.reads_in_place else {}
    f = Function(REGISTER_TILE, _ARGUMENTS | of_rows | of_lanes)
    code = f.lanes(t.width)
    inputs = len(task.prologue_streams)
    start: list[Value] = []
    lines = []
    watched = f.is_given(f["seen"])

    def watch(values: Sequence[Value], first: int) -> None:
        """Let an observer see the accumulators, in a tile that begins at `first`."""
        with f.when(watched):
            for n, value in enumerate(values):
                code.store(value, code.at(f["seen"], first + n * t.width))

    for r in range(t.rows):
        lines.append(stream_places(f, task, f["lane"], f.i64("addi", f["row"], r)))
        for v in range(t.vectors):
            at = [step(f, s, a, v * t.width) for s, a in zip(task.streams, lines[-1], strict=True)]
            values = [load(code, s, a) for s, a in zip(task.prologue_streams, at, strict=False)]
            start.append(task.prologue(code, values))
            kernel.instructions.prefetch(code, at[-1])  # the line of the results, while they are computed
    watch(start, 0)
    micro = Micro(
        name=kernel.name,
        f=f,
        setting=kernel,
        datapath=kernel.datapath,
        rows=t.rows,
        vectors=t.vectors,
        fast=False,
    )
    micro.row_starts, micro.vector_starts = row_starts(micro), vector_starts(micro)
    results = one_by_one(micro, f.number(0), f["kc"], start)
    watch(results, t.rows * t.lanes)
    for n, result in enumerate(results):
        r, v = divmod(n, t.vectors)
        at = [step(f, s, a, v * t.width) for s, a in zip(task.streams, lines[r], strict=True)]
        values = [load(code, s, a) for s, a in zip(task.epilogue_streams, at[inputs:], strict=False)]
        store(code, task.output, task.epilogue(code, [result, *values]), at[-1])
    return f.function()
