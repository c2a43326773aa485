"""The task function of one contraction: its blocked loops, from tasks to the micro-tiles of tile.py.

A task is one (batch, row block, lane block); k is blocked inside it. The tiles of accumulators live in a buffer of the
task's own: the initial values are computed into it (fill, bias, or the output's old contents) and the results pass
through the epilogue on their way out (normalisation, activation, residual), so that an output is written once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.ahead import ahead
from numc.passes.kernels.tasks.edges import edges_text
from numc.passes.kernels.tasks.frame import Block, Frame, enter, leave
from numc.passes.kernels.tasks.interface import SELF, Task, context, run_from
from numc.passes.kernels.tasks.measure import measure_text, measured
from numc.passes.kernels.tasks.own_lanes import kept, pack, room
from numc.passes.kernels.tasks.panels import (
    Panel,
    convert_groups,
    expand,
    make_rows,
    packed_panel,
    rows_are_adjacent,
    store_limits,
    turn_panels,
    width,
)
from numc.passes.kernels.tasks.plane import fill_plane_text
from numc.passes.kernels.tasks.register_tile import register_tile_text
from numc.passes.kernels.tasks.shared_rows import pack_rows_text, shared_panel, shares_rows
from numc.passes.kernels.tasks.tile import tile_in_memory, tile_in_registers, watch
from numc.passes.kernels.tasks.transposed_edges import transposed_edges_text
from numc.passes.kernels.tasks.unpacked_row import UNPACKED_ROW, unpacked_row_text

_BODY, _FILL_PLANE = f"{SELF}_body", f"{SELF}_fill_plane"

_ARGUMENTS = {"context": PTR, "begin": "i64", "end": "i64"}


def task_text(task: Task) -> str:
    """The task function ``@SELF(context, begin, end)`` and the functions that only it calls."""
    edges = transposed_edges_text if task.transposed else edges_text
    parts = [*edges(task), _body_text(task), _entry_text()]
    if task.unpacked_steps:
        parts.append(unpacked_row_text(task))
    if task.in_registers:
        parts.append(register_tile_text(task))
    if shares_rows(task):
        parts.append(pack_rows_text(task))
    parts += [measure_text(task, side) for side in measured(task)]
    if task.plane is not None:
        parts.append(fill_plane_text(_FILL_PLANE, task.kernel, task.plane))
    return "\n".join(parts)


def _entry_text() -> str:
    """The function that the runtime gets the address of, which only an llvm.func has at this stage."""
    f = Function(SELF, _ARGUMENTS, attributes="", dialect="llvm")
    f.call(_BODY, *f.arguments.values())
    return f.function()


def _body_text(task: Task) -> str:
    f = Function(_BODY, _ARGUMENTS)
    frame = enter(f, task)
    matrix = task.kernel.matrix
    if matrix is not None:
        matrix.begin(f)
    with f.loop(f["begin"], f["end"]) as number:
        _task(frame, number)
    if matrix is not None:
        matrix.end(f)
    leave(frame)
    return f.function()


def _task(frame: Frame, number: Value) -> None:
    """One task: its blocks of k, in ascending order."""
    f, task, t, words = frame.f, frame.task, frame.task.kernel.tile, frame.words
    batch, inside = f.i64("divui", number, frame.tasks), f.i64("remui", number, frame.tasks)
    i0 = f.i64("muli", f.i64("remui", inside, frame.row_blocks), words["row_block"])
    j0 = f.i64("muli", f.i64("divui", inside, frame.row_blocks), words["lane_block"])
    a_start, b_start = f.fetch(words["a_batch"], batch), f.fetch(words["b_batch"], batch)
    unpacked = f.at(words["b"], b_start, task.kernel.element("lanes"))
    limits = [f.int(0), f.int(0)]
    if task.plane is not None:
        plane = frame.buffers["plane"]
        open_width = [width(f, "lanes")] if task.kernel.is_open("lanes") else []
        limits = f.call(_FILL_PLANE, unpacked, plane, *open_width, results="i32, i32")
        unpacked = plane
    i_end = f.i64("minui", f.i64("addi", i0, words["row_block"]), words["rows"])
    j_end = f.i64("minui", f.i64("addi", j0, words["lane_block"]), words["lanes"])
    with f.loop(0, frame.k_blocks) as kb:
        k0 = f.i64("muli", kb, t.k_block)
        kc = f.i64("minui", f.i64("subi", words["depth"], k0), t.k_block)
        is_first, is_last = f.compare("eq", kb, f.number(0)), f.compare("eq", kb, frame.last_block)
        block = Block(
            batch=batch,
            i0=i0,
            i_end=i_end,
            j0=j0,
            j_end=j_end,
            a_start=a_start,
            b_start=b_start,
            unpacked=unpacked,
            limits=limits,
            number=kb,
            k0=k0,
            kc=kc,
            is_first=is_first,
            is_last=is_last,
        )
        if task.ready != "rows":
            with f.when(f.negated(frame.shares)) if shares_rows(task) else nullcontext():
                _pack_rows(frame, block)
        if task.unpacked_steps:
            _in_place_or_by_tiles(frame, block)
        else:
            _by_tiles(frame, block)


def _pack_rows(frame: Frame, block: Block) -> None:
    """Pack all rows of the block."""
    f, kernel = frame.f, frame.task.kernel
    if not kernel.rows.turned or kernel.grouped("rows") is not None or kernel.matrix is not None:
        _pack_panels(frame, block)
        return
    adjacent = rows_are_adjacent(f, block.i0, f.i64("subi", block.i_end, block.i0))
    with f.when(adjacent):
        source = f.at(frame.words["a"], block.a_start, kernel.element("rows"))
        to = frame.buffers["rows"], frame.row_pitch, frame.buffers["limits"]
        turn_panels(f, kernel, source, rows=(block.i0, block.i_end), steps=(block.k0, block.kc), to=to)
    with f.when(f.negated(adjacent)):
        _pack_panels(frame, block)


def _pack_panels(frame: Frame, block: Block) -> None:
    """Pack all rows of the block, panel by panel."""
    f, task, kernel = frame.f, frame.task, frame.task.kernel
    with f.loop(block.i0, block.i_end, kernel.tile.rows) as i:
        panel = f.i64("divui", f.i64("subi", i, block.i0), kernel.tile.rows)
        count = f.i64("minui", f.i64("subi", block.i_end, i), kernel.tile.rows)
        to = f.at(frame.buffers["rows"], f.i64("muli", panel, frame.row_pitch))
        limits = f.at(frame.buffers["limits"], f.i64("addi", panel, panel), "i32")
        with f.when(f.negated(_is_in_place(frame, count))) if kernel.rows.in_place else nullcontext():
            if kernel.rows.codes:
                number = f.i64("divui", i, kernel.tile.rows)
                there = packed_panel(f, task, frame.words["a"], start=block.a_start, panel=number, kb=block.number)
                store_limits(f, expand(f, kernel, there, block.kc, to), limits)
            else:
                source = f.at(frame.words["a"], block.a_start, kernel.element("rows"))
                make_rows(
                    f,
                    task,
                    source,
                    batch=block.batch,
                    rows=(i, count),
                    steps=(block.k0, block.kc),
                    to=to,
                    limits=limits,
                )


def _is_in_place(frame: Frame, count: Value) -> Value:
    """Whether a panel of `count` rows is read where the operand is: a micro-kernel reads all the rows that it has."""
    f, kernel = frame.f, frame.task.kernel
    whole = [f.compare("eq", count, f.number(n)) for n in (kernel.tile.rows, *kernel.partial)]
    return f.binary("andi", frame.adjacent_k, functools.reduce(lambda a, b: f.binary("ori", a, b), whole))


def _in_place_or_by_tiles(frame: Frame, block: Block) -> None:
    """Read lanes where they are if they are adjacent in every stream; else by tiles, as where additions are counted."""
    f, task = frame.f, frame.task
    every = f.i64("subi", block.j_end, block.j0)
    adjacent = f.compare("uge", run_from(f, frame.words["lane_run"], block.j0), every)
    if frame.counting is not None:
        uncounted = f.negated(frame.counting.wanted)
        adjacent = f.binary("andi", adjacent, uncounted)
    with f.when(adjacent):
        if task.plane is not None:
            _in_place(frame, block, block.j0, every)
        else:
            with _panels(f, block.j0, block.j_end, task.kernel.tile.lanes) as (j, count):
                _in_place(frame, block, j, count)
    with f.when(f.negated(adjacent)):
        _by_tiles(frame, block)


@contextmanager
def _panels(f: Function, begin: Value, end: Value, size: int) -> Iterator[tuple[Value, Value]]:
    """A loop over panels of `size` rows or lanes; yields the first of a panel, and how many there are."""
    with f.loop(begin, end, size) as first:
        yield first, f.i64("minui", f.i64("subi", end, first), size)


def _in_place(frame: Frame, block: Block, j: Value, count: Value) -> None:
    """`count` lanes from `j` on, of every row, one row after the other (unpacked_row.py)."""
    f, plane = frame.f, frame.task.plane
    lanes = Panel(j, count, block.unpacked, block.limits)
    with f.loop(block.i0, block.i_end) as i:
        row = _rows(frame, block, i, f.number(1))
        if plane is None:
            where = [j, count, f.number(0), f.i64("ceildivui", count, frame.task.kernel.tile.width)]
        else:
            where = [f.number(n) for n in (0, plane.lanes[-1][0], 0, plane.rows)]
        data = (f["context"], lanes.data, row.data, frame.seen)
        f.call(UNPACKED_ROW, *data, block.batch, i, *where, *row.limits, *lanes.limits)
        tiles = frame.buffers["tiles"]
        watch(frame, block, row, lanes, (tiles, f.at(tiles, frame.words["lane_block"])))


def _rows(frame: Frame, block: Block, i: Value, count: Value) -> Panel:
    """The packed panel of `count` rows from `i` on."""
    f, task, t = frame.f, frame.task, frame.task.kernel.tile
    if task.ready == "rows":
        number = f.i64("divui", i, t.rows)
        return Panel(
            i, count, *packed_panel(f, task, frame.words["a"], start=block.a_start, panel=number, kb=block.number)
        )
    number = f.i64("divui", f.i64("subi", i, block.i0), t.rows)
    kept = f.at(frame.buffers["limits"], f.i64("addi", number, number), "i32")
    packed = f.at(frame.buffers["rows"], f.i64("muli", number, frame.row_pitch))
    if shares_rows(task):
        shared = shared_panel(f, task, block.batch, block.number, i)
        packed, kept = (f.select(frame.shares, *each) for each in zip(shared, (packed, kept), strict=True))
    limits = f.fetch(kept, 0, "i32"), f.fetch(kept, 1, "i32")
    if not task.kernel.rows.in_place:
        return Panel(i, count, packed, limits)
    in_place = _is_in_place(frame, count)
    rows, steps = context(f, "a_row", "a_k")
    there = f.at(f.at(frame.words["a"], block.a_start), f.fetch(steps, block.k0))
    starts = f.select(in_place, f.at(rows, i, "i64"), frame.buffers["starts"])
    chunk = f.select(in_place, f.number(1), f.number(t.rows))
    return Panel(i, count, f.select(in_place, there, packed), limits, (starts, chunk))


def _lanes(frame: Frame, block: Block, j: Value, count: Value) -> Panel:
    """The panel of `count` lanes from `j` on, packed now if it is not yet."""
    f, task, kernel = frame.f, frame.task, frame.task.kernel
    number = f.i64("divui", j, kernel.tile.lanes)
    if task.packed == "lanes":
        there = packed_panel(f, task, frame.words["b"], start=block.b_start, panel=number, kb=block.number)
        if task.ready == "lanes":
            return Panel(j, count, *there)
        return Panel(j, count, frame.buffers["lanes"], expand(f, kernel, there, block.kc, frame.buffers["lanes"]))
    panel = room(frame, block, j, count)
    limits = pack(frame, block, panel)
    if kernel.grouped("lanes") is not None:
        limits = convert_groups(
            f, task, "lanes", kc=block.kc, panel=panel.data, batch=block.batch, place=j, k0=block.k0
        )
    return replace(panel, limits=limits)


def _by_tiles(frame: Frame, block: Block) -> None:
    """Every panel of lanes times every panel of rows, a micro-tile each."""
    f, task, t = frame.f, frame.task, frame.task.kernel.tile
    lane_panels, row_panels = (block.j0, block.j_end, t.lanes), (block.i0, block.i_end, t.rows)
    if not task.keeps_lanes:
        with _panels(f, *lane_panels) as (j, lane_count):
            lanes = _lanes(frame, block, j, lane_count)
            stays = _stays(frame, lanes) if task.in_registers else None
            with _panels(f, *row_panels) as (i, row_count):
                _tile(frame, block, _rows(frame, block, i, row_count), lanes, stays)
        return
    with _panels(f, *lane_panels) as (j, lane_count):
        pack(frame, block, room(frame, block, j, lane_count))
    with _panels(f, *row_panels) as (i, row_count):
        rows = _rows(frame, block, i, row_count)
        with _panels(f, *lane_panels) as (j, lane_count):
            lanes = kept(frame, block, j, lane_count)
            _tile(frame, block, rows, lanes, _stays(frame, lanes))


def _tile(frame: Frame, block: Block, rows: Panel, lanes: Panel, stays: Value | None) -> None:
    """One micro-tile. stays: whether it can stay in registers; None if none can."""
    f, t = frame.f, frame.task.kernel.tile
    column = f.i64("divui", f.i64("subi", lanes.first, block.j0), t.lanes)
    coming = ahead(frame, block, rows, lanes)
    if stays is None:
        tile_in_memory(frame, block, rows, lanes=lanes, column=column, ahead=coming)
        return
    full = f.binary("andi", stays, f.compare("eq", rows.count, f.number(t.rows)))
    with f.when(full):
        tile_in_registers(frame, block, rows, lanes, coming)
    with f.when(f.negated(full)):
        tile_in_memory(frame, block, rows, lanes=lanes, column=column, ahead=coming)


def _stays(frame: Frame, lanes: Panel) -> Value:
    """Whether tiles of these lanes can be computed by register_tile.py, if no row of them is missing."""
    f, every = frame.f, frame.f.number(frame.task.kernel.tile.lanes)
    run = run_from(f, frame.words["lane_run"], lanes.first)
    adjacent = f.compare("uge", f.i64("minui", run, lanes.count), every)
    return f.binary("andi", adjacent, frame.one_block)
