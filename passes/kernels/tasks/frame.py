"""What the tasks of one contraction share: sizes and operands, and the buffers of a call of the task function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths import counting
from numc.passes.kernels.packing.layout import layout
from numc.passes.kernels.tasks.edges import Driver, context
from numc.passes.kernels.tasks.panels import ready_words

_WORDS = (
    *("batches", "rows", "lanes", "depth", "row_block", "lane_block", "lane_run"),
    *("a", "b", "probe", "a_batch", "b_batch"),
)


@dataclass(frozen=True)
class Counting:
    """Where counts go; if there is such a place; what a micro-kernel that can count is told, the planes first."""

    to: str
    wanted: str
    told: Sequence[str]


@dataclass(frozen=True)
class Frame:
    """What all tasks of a call share: the function that is written, and the names of what is computed once.

    words: those of the context that are loaded once. memory: what is to be freed; buffers: its parts. counting: None if
    the micro-kernels cannot. row_blocks, tasks: of a batch; lane_panels: of a block. k_blocks: how many blocks of k
    there are, at least one; last_block: the number of the last; one_block: if it is the only one. row_pitch: from one
    packed panel of rows to the next, in f32 numbers. observed: if an observer wants accumulators; seen: where it finds
    those that stay in registers, or null.
    """

    f: Function
    driver: Driver
    words: Mapping[str, str]
    memory: str
    buffers: Mapping[str, str]
    counting: Counting | None
    row_blocks: str
    tasks: str
    lane_panels: str
    k_blocks: str
    last_block: str
    one_block: str
    row_pitch: str
    observed: str
    seen: str


@dataclass(frozen=True)
class Block:
    """One block of k of one task: rows `i0` to `i_end` and lanes `j0` to `j_end` of a batch, `kc` steps from `k0` on.

    a_start: where the batch begins in the operand of the rows, b_start: in that of the lanes. unpacked: where its lanes
    are, or its plane and that one's limits (unpacked_row.py). number: that of the block of k.
    """

    batch: str
    i0: str
    i_end: str
    j0: str
    j_end: str
    a_start: str
    b_start: str
    unpacked: str
    limits: Sequence[str]
    number: str
    k0: str
    kc: str
    is_first: str
    is_last: str


def enter(f: Function, driver: Driver) -> Frame:
    """Read sizes and operands from the context, and allocate the buffers."""
    kernel, t = driver.kernel, driver.kernel.tile
    words = dict(zip(_WORDS, context(f, *_WORDS), strict=True))
    row_block, lane_block, depth = words["row_block"], words["lane_block"], words["depth"]
    row_panels, lane_panels = f.i64("divui", row_block, t.rows), f.i64("divui", lane_block, t.lanes)
    memory, buffers = _allocate(f, _sizes(f, driver, row_block, lane_block, row_panels))
    counting = _counting(f, driver, buffers["counters"]) if kernel.counts else None
    if driver.plane is not None:  # what is padding once stays it
        with f.loop(0, _plane_words(driver)) as i:
            f.line(f"llvm.store {f.f32(0.0)}, {f.at(buffers['plane'], i)} : f32, !llvm.ptr")
    row_blocks, lane_blocks = (
        f.i64("ceildivui", words["rows"], row_block),
        f.i64("ceildivui", words["lanes"], lane_block),
    )
    tasks = f.i64("muli", row_blocks, lane_blocks)
    k_blocks = f.i64("maxui", f.i64("ceildivui", depth, t.k_block), 1)
    last_block = f.i64("subi", k_blocks, 1)
    row_words = layout(kernel, "rows").panel_words(t.k_block)
    row_pitch = ready_words(f, driver, depth) if driver.packed == "rows" else f.number(row_words)
    observed = f.is_given(words["probe"])
    seen = f.select(observed, buffers["tiles"], f.op("llvm.mlir.zero : !llvm.ptr"), "!llvm.ptr")
    one_block = f.compare("eq", last_block, f.number(0), "i64")
    return Frame(
        f, driver, words, memory, buffers, counting, row_blocks, tasks, lane_panels,
        k_blocks, last_block, one_block, row_pitch, observed, seen,
    )  # fmt: skip


def leave(frame: Frame) -> None:
    """Hand over what was counted, and free the buffers."""
    f, kernel, counting = frame.f, frame.driver.kernel, frame.counting
    if counting is not None:
        with f.when(counting.wanted):
            planes = counting.told[0]
            f.call(f"{kernel.name}_merge", planes, types="!llvm.ptr")
            width, types = f.number(kernel.tile.width), "!llvm.ptr, !llvm.ptr, i64"
            f.call("numc_count", counting.to, planes, width, types=types, dialect="llvm")
    f.call("numc_free", frame.memory, types="!llvm.ptr", dialect="llvm")


def _sizes(f: Function, driver: Driver, row_block: str, lane_block: str, row_panels: str) -> dict[str, str]:
    """How many f32 numbers each buffer takes: tiles, packed rows with their limits, packed lanes, plane, counters."""
    kernel, t = driver.kernel, driver.kernel.tile
    row_words, lane_words = (layout(kernel, side).panel_words(t.k_block) for side in ("rows", "lanes"))
    # What stays in registers needs no tile, but an observer does: two.
    each = 2 if driver.direct or driver.joins else kernel.tile_words // (t.rows * t.lanes)
    sizes = {"tiles": f.i64("muli", f.i64("muli", row_block, lane_block), each)}
    if driver.packed != "rows":
        sizes |= {"rows": f.i64("muli", row_panels, row_words), "limits": f.i64("muli", row_panels, 2)}
    if driver.packed != "lanes":
        sizes["lanes"] = f.number(lane_words)
    if driver.plane is not None:
        sizes["plane"] = f.number(_plane_words(driver))
    if kernel.counts:
        sizes["counters"] = f.number(counting.task_words(t.width, kernel.waiting))
    return sizes


def _plane_words(driver: Driver) -> int:
    """What a plane takes: a vector of lanes may begin at the last one."""
    assert driver.plane is not None
    return driver.plane.words + driver.plane.lanes[-1][1] * driver.kernel.tile.width


def _allocate(f: Function, sizes: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Memory of that many f32 numbers, and where each part of it begins: at a multiple of 64 bytes."""
    starts, total = {}, f.number(0)
    for name, size in sizes.items():
        starts[name] = total
        total = f.i64("addi", total, f.i64("muli", f.i64("ceildivui", size, 16), 16))
    (memory,) = f.call("numc_alloc", f.i64("muli", total, 4), types="i64", results="!llvm.ptr", dialect="llvm")
    return memory, {name: f.at(memory, start) for name, start in starts.items()}


def _counting(f: Function, driver: Driver, planes: str) -> Counting:
    """How additions are counted in the planes, which are cleared; without a place to count to, no step is looked at."""
    size = counting.task_words(driver.kernel.tile.width, driver.kernel.waiting)
    to, stride, offset = context(f, "counts", "stride", "offset")
    wanted = f.is_given(to)
    with f.when(wanted), f.loop(0, size) as i:
        f.line(f"llvm.store {f.f32(0.0)}, {f.at(planes, i)} : f32, !llvm.ptr")
    never = f.number(counting.NEVER), f.number(counting.NEVER // 2)
    told = [f.select(wanted, *pair, "i64") for pair in zip((stride, offset), never, strict=True)]
    return Counting(to, wanted, [planes, *told])
