"""The task function that packs an operand of lanes as a whole, for several contractions."""

from __future__ import annotations

from numc.passes.kernels.builder import Function
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.interface import SELF, Task, context
from numc.passes.kernels.tasks.panels import pack_lanes, packed_panel_words, packed_places

_ARGUMENTS = {"context": PTR, "begin": "i64", "end": "i64"}


def pack_once_text(task: Task) -> str:
    """The task function ``@SELF(context, begin, end)`` that packs blocks of lanes for contractions like `task`.

    The operand of the rows is the memory that it packs into; its layout is that of a weight (layout.py).
    """
    kernel, to = task.kernel, layout(task.kernel, "lanes")
    f = Function(f"{SELF}_body", _ARGUMENTS)
    names = "lanes", "depth", "lane_block", "a", "b", "b_batch"
    lanes, depth, lane_block, packed, data, of_batch = context(f, *names)
    k_blocks = f.i64("ceildivui", depth, to.k_block)
    blocks = f.i64("ceildivui", lanes, lane_block)
    batch_words = f.i64("muli", f.i64("ceildivui", lanes, to.extent), packed_panel_words(f, task, depth))
    # A panel is made apart, because the last square of what is transposed reaches out of it.
    size = to.panel_words(to.k_block) + to.width * to.step_words
    (panel_of_task,) = f.call("numc_alloc", f.number(4 * size), results=str(PTR), dialect="llvm")
    with f.loop(f["begin"], f["end"]) as number:
        batch = f.i64("divui", number, blocks)
        first = f.i64("muli", f.i64("remui", number, blocks), lane_block)
        end = f.i64("minui", f.i64("addi", first, lane_block), lanes)
        source = f.at(data, f.fetch(of_batch, batch), kernel.element("lanes"))
        start = f.i64("muli", batch, batch_words)
        with f.loop(first, end, to.extent) as lane, f.loop(0, k_blocks) as kb:
            panel, k0 = f.i64("divui", lane, to.extent), f.i64("muli", kb, to.k_block)
            kc = f.i64("minui", f.i64("subi", depth, k0), to.k_block)
            limits = pack_lanes(f, kernel, source, panel=panel, k0=k0, kc=kc, to=panel_of_task)
            target, of_limits = packed_places(f, task, packed, start=start, panel=panel, kb=kb)
            _copy(f, to.width, panel_of_task, target, f.i64("muli", f.rounded_up(kc, to.unit), to.step_words))
            if of_limits is not None:
                for n, limit in enumerate(limits):
                    f.line(f"llvm.store {limit}, {f.at(of_limits, n, 'i32')} : i32, {PTR}")
    f.call("numc_free", panel_of_task, dialect="llvm")
    entry = Function(SELF, _ARGUMENTS, attributes="", dialect="llvm")
    entry.call(f"{SELF}_body", *entry.arguments.values())
    return f.function() + entry.function()


def _copy(f: Function, width: int, source: Value, to: Value, words: Value) -> None:
    code = f.lanes(width)
    with f.loop(0, words, width) as n:
        code.store(code.load(f.at(source, n)), f.at(to, n))
