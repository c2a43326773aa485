"""One micro-tile of a task: from initial values through the steps of k to the epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.builder import Function
from numc.passes.kernels.datapaths.chunked import run_length
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.edges import EPILOGUE, PROLOGUE
from numc.passes.kernels.tasks.frame import Block, Frame
from numc.passes.kernels.tasks.interface import Task, context
from numc.passes.kernels.tasks.panels import Panel, largest
from numc.passes.kernels.tasks.probe import PROBE
from numc.passes.kernels.tasks.register_tile import REGISTER_TILE


def tile_in_registers(frame: Frame, block: Block, rows: Panel, lanes: Panel, ahead: Sequence[Value]) -> None:
    """A micro-tile from its initial values to the epilogue in registers (register_tile.py)."""
    f, t = frame.f, frame.task.kernel.tile
    where = block.kc, block.batch, rows.first, lanes.first
    f.call(REGISTER_TILE, f["context"], rows.data, lanes.data, *ahead, frame.seen, *where, *rows.places, *lanes.places)
    tiles = frame.buffers["tiles"]
    watch(frame, block, rows, lanes, (tiles, f.at(tiles, t.rows * t.lanes)))


def tile_in_memory(
    frame: Frame, block: Block, rows: Panel, lanes: Panel, column: Value, ahead: Sequence[Value]
) -> None:
    """A micro-tile in memory: initial values before the first block of k, the block's steps, results after the last."""
    f, kernel = frame.f, frame.task.kernel
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
    if kernel.fma.datapath.splits is not None:
        where.append(frame.words["depth"])
    drawn = _drawn(frame, block, rows, lanes)
    counted = frame.counting.told if frame.counting is not None else ()
    width = context(f, "product_width") if kernel.has_open_product else ()
    # Whole panels in place are read in registers only.
    places = (*rows.places, *(lanes.places if kernel.lanes.in_place else ()))
    _steps(frame, block, rows, lanes=lanes, tile=tile, extra=(*where, *drawn, *counted, *width, *ahead, *places))
    with f.when(block.is_last):
        _finish_tile(frame, block, rows, lanes=lanes, tile=tile, drawn=drawn)


def _drawn(frame: Frame, block: Block, rows: Panel, lanes: Panel) -> list[Value]:
    """The sources from which a tile draws, if it does: as `Kernel.drawn` lists it."""
    f = frame.f
    if not frame.task.kernel.drawn:
        return []
    random, of_batch, of_rows, of_lanes = context(f, "random", "e_batch", "e_row", "e_lane")
    return [
        random,
        f.fetch(of_batch, block.batch),
        f.at(of_rows, rows.first, "i64"),
        f.at(of_lanes, lanes.first, "i64"),
    ]


def _begin_tile(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: Value) -> None:
    """Initial accumulators, and sums of chunks or groups of zero."""
    f, task, t = frame.f, frame.task, frame.task.kernel.tile
    if task.prologue_streams:
        # Rows and lanes beyond the output are computed, too: on zeros, not on what happens to be there.
        area = f.i64("muli", rows.count, lanes.count)
        with f.when(f.compare("ne", area, f.number(t.rows * t.lanes))):
            _fill(f, task, tile)
        _edge(frame, block, rows, lanes=lanes, tile=tile, name=PROLOGUE)
    else:
        _fill(f, task, tile)
    # The guard reads the sums of chunks before there are any.
    code = f.lanes(t.width)
    for offset in range(t.rows * t.lanes, task.kernel.tile_words, t.width):
        code.store(code.f32(0.0), code.at(tile, offset))
    watch(frame, block, rows, lanes, (tile,))


def _fill(f: Function, task: Task, tile: Value) -> None:
    """The initial accumulators if they are a constant, else zeros."""
    t = task.kernel.tile
    code = f.lanes(t.width)
    value = code.f32(0.0) if task.prologue_streams else task.prologue(code, [])
    for n in range(t.rows * t.vectors):
        code.store(value, code.at(tile, n * t.width))


def _steps(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: Value, extra: Sequence[Value]) -> None:
    """The block's steps of k, by the micro-kernel for this many lanes; extra: as `Kernel.extra` lists it."""
    f, kernel = frame.f, frame.task.kernel
    arguments = (rows.data, lanes.data, tile, block.kc, rows.count, *rows.limits, *lanes.limits, *extra)
    if not kernel.narrow:
        f.call(kernel.name, *arguments)
        return
    for predicate, name in (("ugt", kernel.name), ("ule", f"{kernel.name}_one")):
        with f.when(f.compare(predicate, lanes.count, f.number(kernel.tile.width))):
            f.call(name, *arguments)


def _finish_tile(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: Value, drawn: Sequence[Value]) -> None:
    """Add up the sums of chunks or groups, or end a register, and let the results through the epilogue."""
    f, task, kernel = frame.f, frame.task, frame.task.kernel
    if kernel.fma.datapath.admits.whole:
        f.call(f"{kernel.name}_finish", tile)
    if kernel.fma.datapath.in_runs:
        length = run_length(f, kernel.fma, frame.words["depth"])
        short = f.compare("ne", f.i64("remui", frame.words["depth"], length), f.number(0))
        more = [frame.words["depth"], *drawn] if drawn else []
        f.call(f"{kernel.name}_finish", tile, short, *more)
    if kernel.scales_results:
        # Without a step there is nothing to add, not even a zero.
        with f.when(f.compare("ne", frame.words["depth"], f.number(0))):
            of_rows = largest(f, task, "rows", block.batch, rows.first)
            of_lanes = largest(f, task, "lanes", block.batch, lanes.first)
            f.call(f"{kernel.name}_finish", tile, of_rows, of_lanes)
    watch(frame, block, rows, lanes, (None, tile))
    _edge(frame, block, rows, lanes=lanes, tile=tile, name=EPILOGUE)


def _edge(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: Value, name: str) -> None:
    """Call one of the functions of edges.py."""
    f = frame.f
    f.call(name, f["context"], tile, block.batch, rows.first, rows.count, lanes.first, lanes.count)


def watch(frame: Frame, block: Block, rows: Panel, lanes: Panel, tiles: Sequence[Value | None]) -> None:
    """Let an observer see initial and final accumulators, those of `tiles` that are there."""
    f = frame.f
    with f.when(frame.observed):
        for phase, tile in enumerate(tiles):
            if tile is not None:
                of_rows = rows.first, rows.count, frame.words["rows"]
                of_lanes = lanes.first, lanes.count, frame.words["lanes"]
                numbers = (f.number(phase), block.batch, frame.words["batches"], *of_rows, *of_lanes)
                pitch = f.number(frame.task.kernel.tile.lanes)
                f.call(PROBE, frame.words["probe"], *numbers, tile, pitch)
