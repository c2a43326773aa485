"""One micro-tile of a task: from initial values through the steps of k to the epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.tasks.edges import EDGE_ARGUMENTS, WHOLE_ARGUMENTS, Driver, context
from numc.passes.kernels.tasks.frame import Block, Frame
from numc.passes.kernels.tasks.panels import Panel, largest


def whole_tile(frame: Frame, block: Block, rows: Panel, lanes: Panel, ahead: Sequence[str]) -> None:
    """A micro-tile from its initial values to the epilogue in registers (register_tile.py)."""
    f, t = frame.f, frame.driver.kernel.tile
    where = block.kc, block.batch, rows.first, lanes.first
    arguments = ("%context", rows.data, lanes.data, *ahead, frame.seen, *where)
    f.call("driver_whole", *arguments, types=", ".join(WHOLE_ARGUMENTS.values()))
    tiles = frame.buffers["tiles"]
    watch(frame, block, rows, lanes, (tiles, f.at(tiles, t.rows * t.lanes)))


def tile_by_parts(frame: Frame, block: Block, rows: Panel, lanes: Panel, column: str, ahead: Sequence[str]) -> None:
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
    counted = frame.counting.told if frame.counting is not None else ()
    extra = (*where, *drawn, *counted, *ahead)
    _steps(frame, block, rows, lanes, tile, extra)
    with f.when(block.is_last):
        _finish_tile(frame, block, rows, lanes, tile, drawn)


def _drawn(frame: Frame, block: Block, rows: Panel, lanes: Panel) -> list[str]:
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


def _begin_tile(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: str) -> None:
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
    watch(frame, block, rows, lanes, (tile,))


def _fill(f: Function, driver: Driver, tile: str) -> None:
    """The initial accumulators if they are a constant, else zeros."""
    t = driver.kernel.tile
    code = Code(t.width, "z")
    value = code.f32(0.0) if driver.first_inputs else driver.first(code, [])
    for n in range(t.rows * t.vectors):
        code.store(value, code.address(tile, n * t.width))
    f.lines += code.lines


def _steps(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: str, extra: Sequence[str]) -> None:
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


def _finish_tile(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: str, drawn: Sequence[str]) -> None:
    """Add up the sums of chunks or groups, and let the results through the epilogue."""
    f, driver, kernel = frame.f, frame.driver, frame.driver.kernel
    if kernel.chunks is not None:
        short = f.compare("ne", f.i64("remui", frame.words["depth"], kernel.chunks.size), f.number(0), "i64")
        more = [frame.words["depth"], *drawn] if drawn else []
        kinds = ["i64", *(kind for _, kind in kernel.drawn)] if drawn else []
        f.call(f"{kernel.name}_finish", tile, short, *more, types=", ".join(["!llvm.ptr, i1", *kinds]))
    if kernel.groups is not None and kernel.groups.is_integer:
        # Without a step there is nothing to add, not even a zero.
        with f.when(f.compare("ne", frame.words["depth"], f.number(0), "i64")):
            of_rows, rows_kind = largest(f, driver, "rows", block.batch, rows.first)
            of_lanes, lanes_kind = largest(f, driver, "lanes", block.batch, lanes.first)
            types = f"!llvm.ptr, {rows_kind}, {lanes_kind}"
            f.call(f"{kernel.name}_finish", tile, of_rows, of_lanes, types=types)
    watch(frame, block, rows, lanes, ("", tile))
    _edge(frame, block, rows, lanes, tile, "driver_last")


def _edge(frame: Frame, block: Block, rows: Panel, lanes: Panel, tile: str, name: str) -> None:
    """Call one of driver.edges_text."""
    arguments = ("%context", tile, block.batch, rows.first, rows.count, lanes.first, lanes.count)
    frame.f.call(name, *arguments, types=", ".join(EDGE_ARGUMENTS.values()))


def watch(frame: Frame, block: Block, rows: Panel, lanes: Panel, tiles: Sequence[str]) -> None:
    """Let an observer see initial and final accumulators, those of `tiles` that have a name."""
    f = frame.f
    with f.when(frame.observed):
        for phase, tile in enumerate(tiles):
            if tile:
                of_rows = rows.first, rows.count, frame.words["rows"]
                of_lanes = lanes.first, lanes.count, frame.words["lanes"]
                numbers = (f.number(phase), block.batch, frame.words["batches"], *of_rows, *of_lanes)
                types = "!llvm.ptr" + ", i64" * len(numbers) + ", !llvm.ptr, i64"
                pitch = f.number(frame.driver.kernel.tile.lanes)
                f.call("numc_probe", frame.words["probe"], *numbers, tile, pitch, types=types)
