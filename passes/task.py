"""The task function of one contraction: blocked loops that pack panels, run micro-kernels, and enter and leave tiles.

A task is one (batch, row block, lane block); k is blocked inside it. The tiles of accumulators live in a buffer of the
task's own: the initial values are computed into it (fill, bias, or the output's old contents) and the results pass
through the epilogue on their way out (normalisation, activation, residual), so that an output is written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from numc.passes import counters
from numc.passes.code import Code, Function
from numc.passes.driver import (
    DIRECT_ARGUMENTS,
    EDGE_ARGUMENTS,
    WHOLE_ARGUMENTS,
    Driver,
    context,
    edges_text,
    run_from,
)
from numc.passes.packing import layout
from numc.passes.panels import Panel, largest, pack_lanes, pack_rows, quantize, ready, ready_words

# The runtime takes the address of a task, which only an llvm.func has at this stage.
_ENTRY_TEXT = """
llvm.func @driver(%context: !llvm.ptr, %begin: i64, %end: i64) {
  func.call @driver_body(%context, %begin, %end) : (!llvm.ptr, i64, i64) -> ()
  llvm.return
}"""


def task_text(driver: Driver) -> str:
    """Return the task function ``@driver(context, begin, end)`` and what it calls: names that begin with ``@driver``."""
    return "\n".join([*edges_text(driver), _body_text(driver), _ENTRY_TEXT])


@dataclass(frozen=True)
class _Frame:
    """What all tasks of a call share: the function that is written, and the names of what is computed once.

    rows, lanes, depth, ...: words of the context. memory: what is to be freed; buffers: its parts, by name. lane_panels:
    panels of lanes in a block. k_blocks: blocks of k, at least one; last_block: the number of the last; one_block: if
    there is no other. row_pitch: from one packed panel of rows to the next, in f32 numbers. observed: if an observer
    wants accumulators; seen: where it finds those that stay in registers, or null. counting: if additions are counted;
    counted: what a micro-kernel that can count is told (counters.py).
    """

    f: Function
    driver: Driver
    batches: str
    rows: str
    lanes: str
    depth: str
    row_block: str
    lane_block: str
    lane_run: str
    a: str
    b: str
    probe: str
    a_batch: str
    b_batch: str
    memory: str
    buffers: Mapping[str, str]
    counts: str
    counting: str
    counted: Sequence[str]
    row_blocks: str
    tasks_of_batch: str
    lane_panels: str
    k_blocks: str
    last_block: str
    one_block: str
    row_pitch: str
    observed: str
    seen: str


@dataclass(frozen=True)
class _Block:
    """One block of k of one task: rows `i0` to `i_end` and lanes `j0` to `j_end` of a batch, `kc` steps from `k0` on.

    a_start: where the batch begins in the operand of the rows, b_start: in that of the lanes. unpacked: the lanes of the
    batch, or of its plane, where they are (direct.py), with the limits of the latter. number: of the block.
    """

    batch: str
    i0: str
    i_end: str
    j0: str
    j_end: str
    a_start: str
    b_start: str
    unpacked: str
    unpacked_limits: Sequence[str]
    number: str
    k0: str
    kc: str
    is_first: str
    is_last: str


def _body_text(driver: Driver) -> str:
    f = Function("driver_body", {"%context": "!llvm.ptr", "%begin": "i64", "%end": "i64"})
    frame = _enter(f, driver)
    with f.loop("%begin", "%end") as number:
        _task(frame, number)
    if driver.kernel.counts:
        with f.when(frame.counting):
            planes = frame.counted[0]
            f.call(f"{driver.kernel.name}_merge", planes, types="!llvm.ptr")
            width, types = f.number(driver.kernel.tile.width), "!llvm.ptr, !llvm.ptr, i64"
            f.call("numc_count", frame.counts, planes, width, types=types, dialect="llvm")
    f.call("numc_free", frame.memory, types="!llvm.ptr", dialect="llvm")
    return f.function()


def _enter(f: Function, driver: Driver) -> _Frame:
    """Read sizes and operands from the context, and allocate the buffers of the tasks."""
    kernel, t = driver.kernel, driver.kernel.tile
    batches, m, n, depth, row_block, lane_block, lane_run = context(
        f, "batches", "rows", "lanes", "depth", "row_block", "lane_block", "lane_run"
    )
    a, b, probe, a_batch, b_batch = context(f, "a", "b", "probe", "a_batch", "b_batch")
    row_panels, lane_panels = f.i64("divui", row_block, t.rows), f.i64("divui", lane_block, t.lanes)
    memory, buffers = _allocate(f, _sizes(f, driver, row_block, lane_block, row_panels))
    counts, counting, counted = _counting(f, driver, buffers) if kernel.counts else ("", "", [])
    if driver.plane is not None:  # what is padding once stays it
        with f.loop(0, _plane_words(driver)) as i:
            f.line(f"llvm.store {f.f32(0.0)}, {f.at(buffers['plane'], i)} : f32, !llvm.ptr")
    row_blocks, lane_blocks = f.i64("ceildivui", m, row_block), f.i64("ceildivui", n, lane_block)
    tasks_of_batch = f.i64("muli", row_blocks, lane_blocks)
    k_blocks = f.i64("maxui", f.i64("ceildivui", depth, t.k_block), 1)
    last_block = f.i64("subi", k_blocks, 1)
    row_words = layout(kernel, "rows").panel_words(t.k_block)
    row_pitch = ready_words(f, driver, depth) if driver.packed == "rows" else f.number(row_words)
    observed = f.compare("ne", f.op(f"llvm.ptrtoint {probe} : !llvm.ptr to i64"), f.number(0), "i64")
    seen = f.select(observed, buffers["tiles"], f.op("llvm.mlir.zero : !llvm.ptr"), "!llvm.ptr")
    one_block = f.compare("eq", last_block, f.number(0), "i64")
    return _Frame(
        f, driver, batches, m, n, depth, row_block, lane_block, lane_run, a, b, probe, a_batch, b_batch,
        memory, buffers, counts, counting, counted, row_blocks, tasks_of_batch, lane_panels,
        k_blocks, last_block, one_block, row_pitch, observed, seen,
    )  # fmt: skip


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
        sizes["counters"] = f.number(counters.task_words(t.width, kernel.waiting))
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


def _counting(f: Function, driver: Driver, buffers: Mapping[str, str]) -> tuple[str, str, list[str]]:
    """Where counts go, whether there is such a place, and what a counting micro-kernel is told; clears the planes."""
    planes, size = buffers["counters"], counters.task_words(driver.kernel.tile.width, driver.kernel.waiting)
    counts, stride, offset = context(f, "counts", "stride", "offset")
    wanted = f.compare("ne", f.op(f"llvm.ptrtoint {counts} : !llvm.ptr to i64"), f.number(0), "i64")
    with f.when(wanted), f.loop(0, size) as i:
        f.line(f"llvm.store {f.f32(0.0)}, {f.at(planes, i)} : f32, !llvm.ptr")
    never = f.number(counters.NEVER), f.number(counters.NEVER // 2)
    told = [f.select(wanted, *pair, "i64") for pair in zip((stride, offset), never, strict=True)]
    return counts, wanted, [planes, *told]


def _task(frame: _Frame, number: str) -> None:
    """One task: its blocks of k, in ascending order."""
    f, driver, t = frame.f, frame.driver, frame.driver.kernel.tile
    batch, inside = f.i64("divui", number, frame.tasks_of_batch), f.i64("remui", number, frame.tasks_of_batch)
    i0 = f.i64("muli", f.i64("remui", inside, frame.row_blocks), frame.row_block)
    j0 = f.i64("muli", f.i64("divui", inside, frame.row_blocks), frame.lane_block)
    a_start, b_start = f.fetch(frame.a_batch, batch), f.fetch(frame.b_batch, batch)
    unpacked: str = f.at(frame.b, b_start)
    limits: Sequence[str] = (f.int(0), f.int(0))
    if driver.plane is not None:
        plane = frame.buffers["plane"]
        limits = f.call("driver_stage", unpacked, plane, types="!llvm.ptr, !llvm.ptr", results="i32, i32")
        unpacked = plane
    i_end = f.i64("minui", f.i64("addi", i0, frame.row_block), frame.rows)
    j_end = f.i64("minui", f.i64("addi", j0, frame.lane_block), frame.lanes)
    with f.loop(0, frame.k_blocks) as kb:
        k0 = f.i64("muli", kb, t.k_block)
        kc = f.i64("minui", f.i64("subi", frame.depth, k0), t.k_block)
        is_first, is_last = f.compare("eq", kb, f.number(0), "i64"), f.compare("eq", kb, frame.last_block, "i64")
        block = _Block(
            batch, i0, i_end, j0, j_end, a_start, b_start, unpacked, limits, kb, k0, kc, is_first, is_last
        )  # fmt: skip
        if driver.packed != "rows":
            _pack_rows(frame, block)
        if driver.direct:
            _in_place_or_by_tiles(frame, block)
        else:
            _all_by_tiles(frame, block)


def _pack_rows(frame: _Frame, block: _Block) -> None:
    """Pack all rows of the block, panel by panel."""
    f, driver, kernel = frame.f, frame.driver, frame.driver.kernel
    with f.loop(block.i0, block.i_end, kernel.tile.rows) as i:
        panel = f.i64("divui", f.i64("subi", i, block.i0), kernel.tile.rows)
        count = f.i64("minui", f.i64("subi", block.i_end, i), kernel.tile.rows)
        to = f.at(frame.buffers["rows"], f.i64("muli", panel, frame.row_pitch))
        limits = pack_rows(f, kernel, f.at(frame.a, block.a_start), i, count, block.k0, block.kc, to)
        if kernel.groups is not None:
            limits = quantize(f, driver, "rows", block.kc, to, block.batch, i, block.k0)
        for word, limit in enumerate(limits):
            place = f.at(frame.buffers["limits"], f.i64("addi", f.i64("addi", panel, panel), word), "i32")
            f.line(f"llvm.store {limit}, {place} : i32, !llvm.ptr")


def _in_place_or_by_tiles(frame: _Frame, block: _Block) -> None:
    """Lanes are read where they are if they are adjacent in every stream; else, and if additions are counted, packed."""
    f, driver = frame.f, frame.driver
    every = f.i64("subi", block.j_end, block.j0)
    adjacent = f.compare("uge", run_from(f, frame.lane_run, block.j0), every, "i64")
    if frame.counted:
        adjacent = f.binary("andi", adjacent, f.binary("xori", frame.counting, f.int(-1, "i1"), "i1"), "i1")
    with f.when(adjacent):
        if driver.plane is not None:
            _in_place(frame, block, block.j0, every)
        else:
            with _panels(f, block.j0, block.j_end, driver.kernel.tile.lanes) as (j, count):
                _in_place(frame, block, j, count)
    with f.when(f.binary("xori", adjacent, f.int(-1, "i1"), "i1")):
        _all_by_tiles(frame, block)


@contextmanager
def _panels(f: Function, begin: str, end: str, size: int) -> Iterator[tuple[str, str]]:
    """A loop over panels of `size` rows or lanes; yields the first of a panel, and how many there are."""
    with f.loop(begin, end, size) as first:
        yield first, f.i64("minui", f.i64("subi", end, first), size)


def _in_place(frame: _Frame, block: _Block, j: str, count: str) -> None:
    """`count` lanes from `j` on, of every row, one row after the other (direct.py)."""
    f, plane = frame.f, frame.driver.plane
    lanes = Panel(j, count, block.unpacked, block.unpacked_limits)
    with f.loop(block.i0, block.i_end) as i:
        row = _rows(frame, block, i, f.number(1))
        if plane is None:
            where = [j, count, f.number(0), f.i64("ceildivui", count, frame.driver.kernel.tile.width)]
        else:
            where = [f.number(n) for n in (0, plane.lanes[-1][0], 0, plane.rows)]
        arguments = ("%context", lanes.data, row.data, frame.seen, block.batch, i, *where, *row.limits, *lanes.limits)
        f.call("driver_direct", *arguments, types=", ".join(DIRECT_ARGUMENTS.values()))
        tiles = frame.buffers["tiles"]
        _watch(frame, block, row, lanes, (tiles, f.at(tiles, frame.lane_block)))


def _rows(frame: _Frame, block: _Block, i: str, count: str) -> Panel:
    """The packed panel of `count` rows from `i` on."""
    f, driver, t = frame.f, frame.driver, frame.driver.kernel.tile
    if driver.packed == "rows":
        number = f.i64("divui", i, t.rows)
        return Panel(i, count, *ready(f, driver, frame.a, block.a_start, number, block.k0, block.number))
    number = f.i64("divui", f.i64("subi", i, block.i0), t.rows)
    twice = f.i64("addi", number, number)
    kept = frame.buffers["limits"]
    limits = f.fetch(kept, twice, "i32"), f.fetch(kept, f.i64("addi", twice, 1), "i32")
    return Panel(i, count, f.at(frame.buffers["rows"], f.i64("muli", number, frame.row_pitch)), limits)


def _lanes(frame: _Frame, block: _Block, j: str, count: str) -> Panel:
    """The panel of `count` lanes from `j` on, packed now if it is not yet."""
    f, driver, kernel = frame.f, frame.driver, frame.driver.kernel
    number = f.i64("divui", j, kernel.tile.lanes)
    if driver.packed == "lanes":
        return Panel(j, count, *ready(f, driver, frame.b, block.b_start, number, block.k0, block.number))
    to = frame.buffers["lanes"]
    limits = pack_lanes(f, kernel, block.unpacked, number, block.k0, block.kc, to)
    if kernel.groups is not None:
        limits = quantize(f, driver, "lanes", block.kc, to, block.batch, j, block.k0)
    return Panel(j, count, to, limits)


def _all_by_tiles(frame: _Frame, block: _Block) -> None:
    with _panels(frame.f, block.j0, block.j_end, frame.driver.kernel.tile.lanes) as (j, count):
        _by_tiles(frame, block, j, count)


def _by_tiles(frame: _Frame, block: _Block, j: str, count: str) -> None:
    """The panel of `count` lanes from `j` on times all panels of rows, a micro-tile each."""
    f, kernel, t = frame.f, frame.driver.kernel, frame.driver.kernel.tile
    lanes = _lanes(frame, block, j, count)
    column = f.i64("divui", f.i64("subi", j, block.j0), t.lanes)
    joins = _joins(frame, lanes) if frame.driver.joins else ""
    with _panels(f, block.i0, block.i_end, t.rows) as (i, row_count):
        rows = _rows(frame, block, i, row_count)
        ahead = [f.at(rows.data, frame.row_pitch)] if kernel.fetches_ahead else []
        if joins:
            whole = f.binary("andi", joins, f.compare("eq", row_count, f.number(t.rows), "i64"), "i1")
            with f.when(whole):
                _whole_tile(frame, block, rows, lanes, ahead)
            with f.when(f.binary("xori", whole, f.int(-1, "i1"), "i1")):
                _tile(frame, block, rows, lanes, column, ahead)
        else:
            _tile(frame, block, rows, lanes, column, ahead)


def _joins(frame: _Frame, lanes: Panel) -> str:
    """Whether tiles of these lanes can be computed by whole.py, if no row of them is missing."""
    f, every = frame.f, frame.f.number(frame.driver.kernel.tile.lanes)
    adjacent = f.compare("uge", f.i64("minui", run_from(f, frame.lane_run, lanes.first), lanes.count), every, "i64")
    return f.binary("andi", adjacent, frame.one_block, "i1")


def _whole_tile(frame: _Frame, block: _Block, rows: Panel, lanes: Panel, ahead: Sequence[str]) -> None:
    """A micro-tile from its initial values to the epilogue in registers (whole.py)."""
    f, t = frame.f, frame.driver.kernel.tile
    where = block.kc, block.batch, rows.first, lanes.first
    arguments = ("%context", rows.data, lanes.data, *ahead, frame.seen, *where)
    f.call("driver_whole", *arguments, types=", ".join(WHOLE_ARGUMENTS.values()))
    tiles = frame.buffers["tiles"]
    _watch(frame, block, rows, lanes, (tiles, f.at(tiles, t.rows * t.lanes)))


def _tile(frame: _Frame, block: _Block, rows: Panel, lanes: Panel, column: str, ahead: Sequence[str]) -> None:
    """A micro-tile in memory: initial values before the first block of k, the block's steps, results after the last."""
    f, kernel = frame.f, frame.driver.kernel
    panel = f.i64("divui", f.i64("subi", rows.first, block.i0), kernel.tile.rows)
    # With one block of k no tile has to be kept.
    number = f.i64(
        "minui",
        f.i64("addi", f.i64("muli", panel, frame.lane_panels), column),
        f.i64("muli", frame.last_block, 1 << 40),
    )
    tile = f.at(frame.buffers["tiles"], f.i64("muli", number, kernel.tile_words))
    with f.when(block.is_first):
        _begin_tile(frame, block, rows, lanes, tile)
    where = [block.k0] if kernel.needs_k0 else []
    drawn = _drawn(frame, block, rows, lanes)
    extra = (*where, *drawn, *frame.counted, *ahead)
    _steps(frame, block, rows, lanes, tile, extra)
    with f.when(block.is_last):
        _finish_tile(frame, block, rows, lanes, tile, drawn)


def _drawn(frame: _Frame, block: _Block, rows: Panel, lanes: Panel) -> list[str]:
    """What a tile draws from, if it does: as `Kernel.drawn` lists it."""
    f = frame.f
    if not frame.driver.kernel.drawn:
        return []
    random, of_batch, of_rows, of_lanes = context(f, "random", "e_batch", "e_row", "e_lane")
    return [
        random,
        f.fetch(of_batch, block.batch),
        f.at(of_rows, rows.first, "i64"),
        f.at(of_lanes, lanes.first, "i64"),
    ]


def _begin_tile(frame: _Frame, block: _Block, rows: Panel, lanes: Panel, tile: str) -> None:
    """Initial accumulators, and sums of chunks or groups of zero."""
    f, driver, t = frame.f, frame.driver, frame.driver.kernel.tile
    if driver.first_inputs:
        # Rows and lanes beyond the output are computed, too: on zeros, not on what happens to be there.
        area = f.i64("muli", rows.count, lanes.count)
        with f.when(f.compare("ne", area, f.number(t.rows * t.lanes), "i64")):
            _fill(f, driver, tile)
        _edge(frame, block, rows, lanes, tile, "driver_first")
    else:
        _fill(f, driver, tile)
    # The guard reads the sums of chunks before there are any.
    code = Code(t.width, "zs")
    for place in range(t.rows * t.lanes, driver.kernel.tile_words, t.width):
        code.store(code.f32(0.0), code.address(tile, place))
    f.lines += code.lines
    _watch(frame, block, rows, lanes, (tile,))


def _fill(f: Function, driver: Driver, tile: str) -> None:
    """The initial accumulators if they are a constant, else zeros."""
    t = driver.kernel.tile
    code = Code(t.width, "z")
    value = code.f32(0.0) if driver.first_inputs else driver.first(code, [])
    for n in range(t.rows * t.vectors):
        code.store(value, code.address(tile, n * t.width))
    f.lines += code.lines


def _steps(frame: _Frame, block: _Block, rows: Panel, lanes: Panel, tile: str, extra: Sequence[str]) -> None:
    """The block's steps of k, by the micro-kernel for this many lanes; extra: as `Kernel.extra` lists it."""
    f, kernel = frame.f, frame.driver.kernel
    arguments = (rows.data, lanes.data, tile, block.kc, rows.count, *rows.limits, *lanes.limits, *extra)
    kinds = [kind for _, kind in kernel.extra]
    types = ", ".join(["!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i32, i32, i32, i32", *kinds])
    if not kernel.narrow:
        f.call(kernel.name, *arguments, types=types)
        return
    for predicate, name in (("ugt", kernel.name), ("ule", f"{kernel.name}_one")):
        with f.when(f.compare(predicate, lanes.count, f.number(kernel.tile.width), "i64")):
            f.call(name, *arguments, types=types)


def _finish_tile(frame: _Frame, block: _Block, rows: Panel, lanes: Panel, tile: str, drawn: Sequence[str]) -> None:
    """Add up the sums of chunks or groups, and let the results through the epilogue."""
    f, driver, kernel = frame.f, frame.driver, frame.driver.kernel
    if kernel.chunks is not None:
        short = f.compare("ne", f.i64("remui", frame.depth, kernel.chunks.size), f.number(0), "i64")
        more = [frame.depth, *drawn] if drawn else []
        kinds = ["i64", *(kind for _, kind in kernel.drawn)] if drawn else []
        f.call(f"{kernel.name}_finish", tile, short, *more, types=", ".join(["!llvm.ptr, i1", *kinds]))
    if kernel.groups is not None and kernel.groups.is_integer:
        # Without a step there is nothing to add, not even a zero.
        with f.when(f.compare("ne", frame.depth, f.number(0), "i64")):
            of_rows, rows_kind = largest(f, driver, "rows", block.batch, rows.first)
            of_lanes, lanes_kind = largest(f, driver, "lanes", block.batch, lanes.first)
            types = f"!llvm.ptr, {rows_kind}, {lanes_kind}"
            f.call(f"{kernel.name}_finish", tile, of_rows, of_lanes, types=types)
    _watch(frame, block, rows, lanes, ("", tile))
    _edge(frame, block, rows, lanes, tile, "driver_last")


def _edge(frame: _Frame, block: _Block, rows: Panel, lanes: Panel, tile: str, name: str) -> None:
    """Call one of driver.edges_text."""
    arguments = ("%context", tile, block.batch, rows.first, rows.count, lanes.first, lanes.count)
    frame.f.call(name, *arguments, types=", ".join(EDGE_ARGUMENTS.values()))


def _watch(frame: _Frame, block: _Block, rows: Panel, lanes: Panel, tiles: Sequence[str]) -> None:
    """Let an observer see initial and final accumulators, those of `tiles` that have a name."""
    f = frame.f
    with f.when(frame.observed):
        for phase, tile in enumerate(tiles):
            if tile:
                of_rows = rows.first, rows.count, frame.rows
                of_lanes = lanes.first, lanes.count, frame.lanes
                numbers = (f.number(phase), block.batch, frame.batches, *of_rows, *of_lanes)
                types = "!llvm.ptr" + ", i64" * len(numbers) + ", !llvm.ptr, i64"
                pitch = f.number(frame.driver.kernel.tile.lanes)
                f.call("numc_probe", frame.probe, *numbers, tile, pitch, types=types)
