"""Rows that are packed for all tasks of a contraction, before the first one begins, where several read the same rows.

Tasks of other lanes read the same rows. Images of few pixels and many filters are the case where that matters: the
tasks of two threads would pack the whole image many times, a seventh of their time.
"""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.builder import Function
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.interface import SELF, Task, context
from numc.passes.kernels.tasks.panels import make_rows

_PACK = f"{SELF}_pack_rows"
_ARGUMENTS = {"context": PTR, "begin": "i64", "end": "i64"}


def shares_rows(task: Task) -> bool:
    """Whether rows can be packed before the tasks: those that tasks pack panel by panel, of lanes that are a weight."""
    return task.packed == "lanes" and not task.kernel.rows.in_place and not task.unpacked_steps


def pack_name(name: str) -> str:
    """The name of the function that packs the rows for the task function `name`."""
    return _PACK.replace(SELF, name)


def row_words(task: Task) -> int:
    """The size of one panel of rows for one block of k, in f32 numbers."""
    return layout(task.kernel, "rows").panel_words(task.kernel.tile.k_block)


def pack_rows_text(task: Task) -> str:
    """The function ``(context, begin, end)`` that packs panels, counted through all batches and blocks of k."""
    t = task.kernel.tile
    f = Function(f"{_PACK}_body", _ARGUMENTS)
    a, rows, depth, of_batch = context(f, "a", "rows", "depth", "a_batch")
    panels, blocks = _counts(f, task)
    with f.loop(f["begin"], f["end"]) as number:
        block = f.i64("divui", number, panels)
        batch, i = f.i64("divui", block, blocks), f.i64("muli", f.i64("remui", number, panels), t.rows)
        k0 = f.i64("muli", f.i64("remui", block, blocks), t.k_block)
        kc = f.i64("minui", f.i64("subi", depth, k0), t.k_block)
        count = f.i64("minui", f.i64("subi", rows, i), t.rows)
        data, limits = _place(f, task, number)
        source = f.at(a, f.fetch(of_batch, batch), task.kernel.element("rows"))
        make_rows(f, task, source, batch=batch, rows=(i, count), steps=(k0, kc), to=data, limits=limits)
    entry = Function(_PACK, _ARGUMENTS, attributes="", dialect="llvm")
    entry.call(f"{_PACK}_body", *entry.arguments.values())
    return f.function() + entry.function()


def shared_panel(f: Function, task: Task, batch: Value, block: Value, row: Value) -> Sequence[Value]:
    """Where the panel from `row` on of a block of k is, and where its limits are."""
    panels, blocks = _counts(f, task)
    number = f.i64("muli", f.i64("addi", f.i64("muli", batch, blocks), block), panels)
    return _place(f, task, f.i64("addi", number, f.i64("divui", row, task.kernel.tile.rows)))


def _counts(f: Function, task: Task) -> tuple[Value, Value]:
    """The number of panels of a batch, and that of blocks of k of each."""
    rows, depth = context(f, "rows", "depth")
    blocks = f.i64("maxui", f.i64("ceildivui", depth, task.kernel.tile.k_block), 1)
    return f.i64("ceildivui", rows, task.kernel.tile.rows), blocks


def _place(f: Function, task: Task, number: Value) -> Sequence[Value]:
    """Where panel `number` is, and where its limits are, behind all panels."""
    shared, batches = context(f, "shared_rows", "batches")
    panels, blocks = _counts(f, task)
    every = f.i64("muli", f.i64("muli", batches, panels), blocks)
    limits = f.i64("addi", f.i64("muli", every, row_words(task)), f.i64("addi", number, number))
    return f.at(shared, f.i64("muli", number, row_words(task))), f.at(shared, limits)
