"""The task function of one contraction: its blocked loops, from tasks to the micro-tiles of tile.py.

A task is one (batch, row block, lane block); k is blocked inside it. The tiles of accumulators live in a buffer of the
task's own: the initial values are computed into it (fill, bias, or the output's old contents) and the results pass
through the epilogue on their way out (normalisation, activation, residual), so that an output is written once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from numc.passes.kernels.builder import Function
from numc.passes.kernels.tasks.edges import DIRECT_ARGUMENTS, Driver, edges_text, run_from
from numc.passes.kernels.tasks.frame import Block, Frame, enter, leave
from numc.passes.kernels.tasks.panels import Panel, pack_lanes, pack_rows, quantize, ready
from numc.passes.kernels.tasks.tile import tile_by_parts, watch, whole_tile

# The runtime takes the address of a task, which only an llvm.func has at this stage.
_ENTRY_TEXT = """
llvm.func @driver(%context: !llvm.ptr, %begin: i64, %end: i64) {
  func.call @driver_body(%context, %begin, %end) : (!llvm.ptr, i64, i64) -> ()
  llvm.return
}"""


def task_text(driver: Driver) -> str:
    """The task function ``@driver(context, begin, end)`` and what it calls: names that begin with ``@driver``."""
    return "\n".join([*edges_text(driver), _body_text(driver), _ENTRY_TEXT])


def _body_text(driver: Driver) -> str:
    f = Function("driver_body", {"%context": "!llvm.ptr", "%begin": "i64", "%end": "i64"})
    frame = enter(f, driver)
    with f.loop("%begin", "%end") as number:
        _task(frame, number)
    leave(frame)
    return f.function()


def _task(frame: Frame, number: str) -> None:
    """One task: its blocks of k, in ascending order."""
    f, driver, t, words = frame.f, frame.driver, frame.driver.kernel.tile, frame.words
    batch, inside = f.i64("divui", number, frame.tasks), f.i64("remui", number, frame.tasks)
    i0 = f.i64("muli", f.i64("remui", inside, frame.row_blocks), words["row_block"])
    j0 = f.i64("muli", f.i64("divui", inside, frame.row_blocks), words["lane_block"])
    a_start, b_start = f.fetch(words["a_batch"], batch), f.fetch(words["b_batch"], batch)
    unpacked = f.at(words["b"], b_start)
    limits = [f.int(0), f.int(0)]
    if driver.plane is not None:
        plane = frame.buffers["plane"]
        limits = f.call("driver_stage", unpacked, plane, types="!llvm.ptr, !llvm.ptr", results="i32, i32")
        unpacked = plane
    i_end = f.i64("minui", f.i64("addi", i0, words["row_block"]), words["rows"])
    j_end = f.i64("minui", f.i64("addi", j0, words["lane_block"]), words["lanes"])
    with f.loop(0, frame.k_blocks) as kb:
        k0 = f.i64("muli", kb, t.k_block)
        kc = f.i64("minui", f.i64("subi", words["depth"], k0), t.k_block)
        is_first, is_last = f.compare("eq", kb, f.number(0), "i64"), f.compare("eq", kb, frame.last_block, "i64")
        block = Block(batch, i0, i_end, j0, j_end, a_start, b_start, unpacked, limits, kb, k0, kc, is_first, is_last)
        if driver.packed != "rows":
            _pack_rows(frame, block)
        if driver.direct:
            _in_place_or_by_tiles(frame, block)
        else:
            _by_tiles(frame, block)


def _pack_rows(frame: Frame, block: Block) -> None:
    """Pack all rows of the block, panel by panel."""
    f, driver, kernel = frame.f, frame.driver, frame.driver.kernel
    with f.loop(block.i0, block.i_end, kernel.tile.rows) as i:
        panel = f.i64("divui", f.i64("subi", i, block.i0), kernel.tile.rows)
        count = f.i64("minui", f.i64("subi", block.i_end, i), kernel.tile.rows)
        to = f.at(frame.buffers["rows"], f.i64("muli", panel, frame.row_pitch))
        limits = pack_rows(f, kernel, f.at(frame.words["a"], block.a_start), i, count, block.k0, block.kc, to)
        if kernel.groups is not None:
            limits = quantize(f, driver, "rows", block.kc, to, block.batch, i, block.k0)
        for word, limit in enumerate(limits):
            place = f.at(frame.buffers["limits"], f.i64("addi", f.i64("addi", panel, panel), word), "i32")
            f.line(f"llvm.store {limit}, {place} : i32, !llvm.ptr")


def _in_place_or_by_tiles(frame: Frame, block: Block) -> None:
    """Read lanes where they are if they are adjacent in every stream; else by tiles, as where additions are counted."""
    f, driver = frame.f, frame.driver
    every = f.i64("subi", block.j_end, block.j0)
    adjacent = f.compare("uge", run_from(f, frame.words["lane_run"], block.j0), every, "i64")
    if frame.counting is not None:
        uncounted = f.negated(frame.counting.wanted)
        adjacent = f.binary("andi", adjacent, uncounted, "i1")
    with f.when(adjacent):
        if driver.plane is not None:
            _in_place(frame, block, block.j0, every)
        else:
            with _panels(f, block.j0, block.j_end, driver.kernel.tile.lanes) as (j, count):
                _in_place(frame, block, j, count)
    with f.when(f.negated(adjacent)):
        _by_tiles(frame, block)


@contextmanager
def _panels(f: Function, begin: str, end: str, size: int) -> Iterator[tuple[str, str]]:
    """A loop over panels of `size` rows or lanes; yields the first of a panel, and how many there are."""
    with f.loop(begin, end, size) as first:
        yield first, f.i64("minui", f.i64("subi", end, first), size)


def _in_place(frame: Frame, block: Block, j: str, count: str) -> None:
    """`count` lanes from `j` on, of every row, one row after the other (unpacked_row.py)."""
    f, plane = frame.f, frame.driver.plane
    lanes = Panel(j, count, block.unpacked, block.limits)
    with f.loop(block.i0, block.i_end) as i:
        row = _rows(frame, block, i, f.number(1))
        if plane is None:
            where = [j, count, f.number(0), f.i64("ceildivui", count, frame.driver.kernel.tile.width)]
        else:
            where = [f.number(n) for n in (0, plane.lanes[-1][0], 0, plane.rows)]
        arguments = ("%context", lanes.data, row.data, frame.seen, block.batch, i, *where, *row.limits, *lanes.limits)
        f.call("driver_direct", *arguments, types=", ".join(DIRECT_ARGUMENTS.values()))
        tiles = frame.buffers["tiles"]
        watch(frame, block, row, lanes, (tiles, f.at(tiles, frame.words["lane_block"])))


def _rows(frame: Frame, block: Block, i: str, count: str) -> Panel:
    """The packed panel of `count` rows from `i` on."""
    f, driver, t = frame.f, frame.driver, frame.driver.kernel.tile
    if driver.packed == "rows":
        number = f.i64("divui", i, t.rows)
        return Panel(i, count, *ready(f, driver, frame.words["a"], block.a_start, number, block.k0, block.number))
    number = f.i64("divui", f.i64("subi", i, block.i0), t.rows)
    twice = f.i64("addi", number, number)
    kept = frame.buffers["limits"]
    limits = f.fetch(kept, twice, "i32"), f.fetch(kept, f.i64("addi", twice, 1), "i32")
    return Panel(i, count, f.at(frame.buffers["rows"], f.i64("muli", number, frame.row_pitch)), limits)


def _lanes(frame: Frame, block: Block, j: str, count: str) -> Panel:
    """The panel of `count` lanes from `j` on, packed now if it is not yet."""
    f, driver, kernel = frame.f, frame.driver, frame.driver.kernel
    number = f.i64("divui", j, kernel.tile.lanes)
    if driver.packed == "lanes":
        return Panel(j, count, *ready(f, driver, frame.words["b"], block.b_start, number, block.k0, block.number))
    to = frame.buffers["lanes"]
    limits = pack_lanes(f, kernel, block.unpacked, number, block.k0, block.kc, to)
    if kernel.groups is not None:
        limits = quantize(f, driver, "lanes", block.kc, to, block.batch, j, block.k0)
    return Panel(j, count, to, limits)


def _by_tiles(frame: Frame, block: Block) -> None:
    """Every panel of lanes times every panel of rows, a micro-tile each."""
    f, kernel, t = frame.f, frame.driver.kernel, frame.driver.kernel.tile
    with _panels(f, block.j0, block.j_end, t.lanes) as (j, lane_count):
        lanes = _lanes(frame, block, j, lane_count)
        column = f.i64("divui", f.i64("subi", j, block.j0), t.lanes)
        joins = _joins(frame, lanes) if frame.driver.joins else ""
        with _panels(f, block.i0, block.i_end, t.rows) as (i, row_count):
            rows = _rows(frame, block, i, row_count)
            ahead = [f.at(rows.data, frame.row_pitch)] if kernel.fetches_ahead else []
            if not joins:
                tile_by_parts(frame, block, rows, lanes, column, ahead)
            else:
                whole = f.binary("andi", joins, f.compare("eq", row_count, f.number(t.rows), "i64"), "i1")
                with f.when(whole):
                    whole_tile(frame, block, rows, lanes, ahead)
                with f.when(f.negated(whole)):
                    tile_by_parts(frame, block, rows, lanes, column, ahead)


def _joins(frame: Frame, lanes: Panel) -> str:
    """Whether tiles of these lanes can be computed by register_tile.py, if no row of them is missing."""
    f, every = frame.f, frame.f.number(frame.driver.kernel.tile.lanes)
    run = run_from(f, frame.words["lane_run"], lanes.first)
    adjacent = f.compare("uge", f.i64("minui", run, lanes.count), every, "i64")
    return f.binary("andi", adjacent, frame.one_block, "i1")
