"""The common part of the tasks of a contraction: sizes and operands, and the buffers of a call of the task function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths import counting
from numc.passes.kernels.packing.expand_codes import expanded_room
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.interface import Task, context
from numc.passes.kernels.tasks.panels import packed_panel_words

_WORDS = (
    *("batches", "rows", "lanes", "depth", "row_block", "lane_block", "a_run", "lane_run"),
    *("a", "b", "probe", "a_batch", "b_batch", "shared_rows"),
)


@dataclass(frozen=True)
class Counting:
    """Where counts go; whether there is such a place; what a micro-kernel that counts is told, the planes first."""

    to: Value
    wanted: Value
    told: Sequence[Value]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The common part of all tasks of a call: the function that is written, and what is computed once.

    words: those of the context that are loaded once. memory: what is to be freed; buffers: its parts. counting: None if
    the micro-kernels cannot. row_blocks, tasks: of a batch; lane_panels: of a block. k_blocks: how many blocks of k
    there are, at least one; last_block: the number of the last; one_block: whether it is the only one. row_pitch: from
    one packed panel of rows to the next, in f32 numbers. adjacent_k: whether the steps of k of a row are. observed:
    whether an observer wants accumulators; seen: where it finds those that stay in registers, or null. shares: whether
    rows have been packed for all tasks (shared_rows.py).
    """

    f: Function
    task: Task
    words: Mapping[str, Value]
    memory: Value
    buffers: Mapping[str, Value]
    counting: Counting | None
    row_blocks: Value
    tasks: Value
    lane_panels: Value
    k_blocks: Value
    last_block: Value
    one_block: Value
    row_pitch: Value
    adjacent_k: Value
    observed: Value
    seen: Value
    shares: Value


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block of k of one task: rows `i0` to `i_end` and lanes `j0` to `j_end` of a batch, `kc` steps from `k0` on.

    a_start: where the batch begins in the operand of the rows, b_start: in that of the lanes. unpacked: where its lanes
    are, or its plane, and the limits of that (unpacked_row.py). number: that of the block of k.
    """

    batch: Value
    i0: Value
    i_end: Value
    j0: Value
    j_end: Value
    a_start: Value
    b_start: Value
    unpacked: Value
    limits: Sequence[Value]
    number: Value
    k0: Value
    kc: Value
    is_first: Value
    is_last: Value


def enter(f: Function, task: Task) -> Frame:
    """Read sizes and operands from the context, and allocate the buffers."""
    kernel, t = task.kernel, task.kernel.tile
    words = dict(zip(_WORDS, context(f, *_WORDS), strict=True))
    row_block, lane_block, depth = words["row_block"], words["lane_block"], words["depth"]
    row_panels, lane_panels = f.i64("divui", row_block, t.rows), f.i64("divui", lane_block, t.lanes)
    memory, buffers = _allocate(f, _sizes(f, task, row_block, lane_block, row_panels))
    counts = _counting(f, task, buffers["counters"]) if kernel.counts else None
    if kernel.rows.in_place:  # where the rows of a packed panel begin
        for r in range(t.rows):
            f.line(f"llvm.store {f.number(r * t.width)}, {f.at(buffers['starts'], r, 'i64')} : i64, !llvm.ptr")
    if task.plane is not None:  # what is padding once stays it
        _clear(f, buffers["plane"], _plane_words(task))
    row_blocks, lane_blocks = (
        f.i64("ceildivui", words["rows"], row_block),
        f.i64("ceildivui", words["lanes"], lane_block),
    )
    tasks = f.i64("muli", row_blocks, lane_blocks)
    k_blocks = f.i64("maxui", f.i64("ceildivui", depth, t.k_block), 1)
    last_block = f.i64("subi", k_blocks, 1)
    row_words = layout(kernel, "rows").panel_words(t.k_block)
    row_pitch = packed_panel_words(f, task, depth) if task.ready == "rows" else f.number(row_words)
    observed = f.is_given(words["probe"])
    seen = f.select(observed, buffers["tiles"], f.null())
    one_block = f.compare("eq", last_block, f.number(0))
    adjacent_k = f.compare("uge", words["a_run"], depth)
    return Frame(
        f=f,
        task=task,
        words=words,
        memory=memory,
        buffers=buffers,
        counting=counts,
        row_blocks=row_blocks,
        tasks=tasks,
        lane_panels=lane_panels,
        k_blocks=k_blocks,
        last_block=last_block,
        one_block=one_block,
        row_pitch=row_pitch,
        adjacent_k=adjacent_k,
        observed=observed,
        seen=seen,
        shares=f.is_given(words["shared_rows"]),
    )


def leave(frame: Frame) -> None:
    """Hand over what was counted, and free the buffers."""
    f, kernel, counts = frame.f, frame.task.kernel, frame.counting
    if counts is not None:
        with f.when(counts.wanted):
            planes = counts.told[0]
            f.call(f"{kernel.name}_merge", planes)
            f.call("numc_count", counts.to, planes, f.number(kernel.tile.width), dialect="llvm")
    f.call("numc_free", frame.memory, dialect="llvm")


def _sizes(f: Function, task: Task, row_block: Value, lane_block: Value, row_panels: Value) -> dict[str, Value]:
    """The sizes of buffers in f32 numbers: tiles, packed rows with their limits, packed lanes, plane, counters."""
    kernel, t = task.kernel, task.kernel.tile
    row_words, lane_words = (layout(kernel, side).panel_words(t.k_block) for side in ("rows", "lanes"))
    # What stays in registers needs no tile, but an observer does: two.
    each = 2 if task.unpacked_steps or task.in_registers else kernel.tile_words // (t.rows * t.lanes)
    sizes = {"tiles": f.i64("muli", f.i64("muli", row_block, lane_block), each)}
    # Codes are expanded by whole periods, the last of which reaches out.
    more = {
        side: expanded_room(kernel) if kernel.expands and kernel.access(side).codes else 0 for side in ("rows", "lanes")
    }
    if task.ready != "rows":
        rows = f.i64("addi", f.i64("muli", row_panels, row_words), more["rows"])
        sizes |= {"rows": rows, "limits": f.i64("muli", row_panels, 2)}
    if kernel.rows.in_place:
        sizes["starts"] = f.number(2 * t.rows)
    if task.ready != "lanes":
        panels = f.i64("divui", lane_block, t.lanes) if task.keeps_lanes else f.number(1)
        # The last square of what is transposed may reach out.
        behind = t.width * layout(kernel, "lanes").step_words if kernel.lanes.turned else more["lanes"]
        sizes["lanes"] = f.i64("addi", f.i64("muli", panels, lane_words), behind)
        if kernel.lanes.in_place:
            sizes["vectors"] = f.i64("muli", panels, 4 * t.vectors)
    if task.plane is not None:
        sizes["plane"] = f.number(_plane_words(task))
    if kernel.counts:
        sizes["counters"] = f.number(counting.task_words(t.width, kernel.waiting))
    return sizes


def _plane_words(task: Task) -> int:
    """The words of a plane: a vector of lanes may begin at the last one."""
    assert task.plane is not None
    return task.plane.words + task.plane.lanes[-1][1] * task.kernel.tile.width


def _allocate(f: Function, sizes: Mapping[str, Value]) -> tuple[Value, dict[str, Value]]:
    """Memory of that many f32 numbers, and where each part of it begins: at a multiple of 64 bytes."""
    starts, total = {}, f.number(0)
    for name, size in sizes.items():
        starts[name] = total
        total = f.i64("addi", total, f.i64("muli", f.i64("ceildivui", size, 16), 16))
    (memory,) = f.call("numc_alloc", f.i64("muli", total, 4), results="!llvm.ptr", dialect="llvm")
    return memory, {name: f.at(memory, start) for name, start in starts.items()}


def _counting(f: Function, task: Task, planes: Value) -> Counting:
    """The counting of additions in the planes, which are cleared; without a place to count to, no step is looked at."""
    to, stride, offset = context(f, "counts", "stride", "offset")
    wanted = f.is_given(to)
    with f.when(wanted):
        _clear(f, planes, counting.task_words(task.kernel.tile.width, task.kernel.waiting))
    never = f.number(counting.NEVER), f.number(counting.NEVER // 2)
    told = [f.select(wanted, *pair) for pair in zip((stride, offset), never, strict=True)]
    return Counting(to, wanted, [planes, *told])


def _clear(f: Function, place: Value, words: int) -> None:
    with f.loop(0, words) as i:
        f.line(f"llvm.store {f.f32(0.0)}, {f.at(place, i)} : f32, !llvm.ptr")
