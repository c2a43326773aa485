# ruff: noqa: E501 - the long lines are MLIR text
"""The blocked loops of one contraction: packing, micro-kernels, and what is computed at a tile's entry and exit.

A task is one (batch, row block, lane block); k is blocked inside it. The accumulators of a task live in a buffer of its
own: the initial values are computed into it (fill, bias, or the output's old contents) and the results pass through the
epilogue on their way out (normalisation, activation, residual), so that an output is written once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from numc.passes import counters
from numc.passes.code import APART, Code, Function
from numc.passes.kernels import Kernel
from numc.passes.packing import layout
from numc.passes.quantize import DRAWN
from numc.passes.segments import lanes_below
from numc.passes.staging import Plane

# The words of the context a task reads; runtime/src/contract.cpp fills them. Then, for each stream: data and tables.
# ranges: where the guard's data begins in the packed weight, in f32 numbers. a_largest, b_largest: the largest magnitudes
# of the operands (encodings), where groups are converted by them; of channels, where those of all batches are. counts:
# where an observer wants additions counted (counters.py), by this stride and offset.
CONTEXT = (
    *("a", "b", "batches", "rows", "lanes", "depth", "row_block", "lane_block", "ranges", "lane_run"),
    *("a_largest", "b_largest", "probe", "counts", "stride", "offset"),
    *("a_batch", "a_row", "a_k", "b_batch", "b_lane", "b_k"),
    *("k_first", "k_segment", "k_mask", "lane_first", "lane_segment", "lane_mask", "lane_dense"),
    *("random", "e_batch", "e_row", "e_lane"),
)
_NUMBERS = (
    *("batches", "rows", "lanes", "depth", "row_block", "lane_block", "ranges", "lane_run"),
    *("a_largest", "b_largest", "random", "stride", "offset"),
)
ROWS_PACKED, LANES_PACKED, WHOLE_LANES, DRAWS = 1, 2, 4, 8
_SHORT = 24  # operations on a vector that may be written once for each vector of a tile
CHANNELS = -1  # in place of a largest magnitude: the runtime finds one for every row or lane
SCATTERED = -(2**63)  # in lane_dense, else the offset of a panel's first lane


@dataclass(frozen=True)
class Stream:
    """An f32 operand of the prologue or the epilogue; `along`: it differs from lane to lane."""

    along: bool


@dataclass(frozen=True)
class Driver:
    """What distinguishes one task function from another.

    packed: the side that was packed at compile time: ``rows``, ``lanes`` or nothing. direct: the number of steps of k if
    the lanes need not be packed (direct.py), else 0. plane: what the lanes are read from if it is made first (staging.py).
    first, last: straight-line code from the lanes of their streams (and for `last` the accumulator, first) to a result.
    Streams are numbered: those of `first`, those of `last`, the output.
    """

    kernel: Kernel
    packed: str
    direct: int
    plane: Plane | None
    first: Callable[[Code, list[str]], str]
    last: Callable[[Code, list[str]], str]
    first_inputs: tuple[Stream, ...]
    last_inputs: tuple[Stream, ...]

    @functools.cached_property
    def joins(self) -> bool:
        """Whether whole tiles go from their initial values to the epilogue in registers (whole.py)."""
        if not self.kernel.joins:
            return False
        code = Code(self.kernel.tile.width)
        self.first(code, ["%x"] * len(self.first_inputs))
        self.last(code, ["%x"] * (1 + len(self.last_inputs)))
        return len(code.lines) <= _SHORT and not any(" = math." in line for line in code.lines)


def driver_text(driver: Driver) -> str:
    """Return the task function ``@driver(context, begin, end)`` and what it calls: names that begin with ``@driver``."""
    return "\n".join([_first_text(driver), _last_text(driver), _task_text(driver), _ENTRY_TEXT])


def context(f: Function, *names: str) -> list[str]:
    """Load the words of the context called `names`."""
    return [f.fetch("%context", CONTEXT.index(n), "i64" if n in _NUMBERS else "!llvm.ptr") for n in names]


_EDGE_ARGUMENTS = {
    **dict.fromkeys(("%context", "%tile"), "!llvm.ptr"),
    **dict.fromkeys(("%batch", "%row", "%row_count", "%lane", "%lane_count"), "i64"),
}


def _base(f: Function, number: int) -> tuple[str, str, str]:
    """Where a batch of a stream begins, and its offsets along rows and lanes."""
    data, batches, rows, lanes = (f.fetch("%context", len(CONTEXT) + 4 * number + n, "!llvm.ptr") for n in range(4))
    return f.at(data, f.fetch(batches, "%batch")), rows, lanes


def lines_at(f: Function, driver: Driver, lane: str, row: str) -> list[str]:
    """The addresses of `lane` of `row` in all streams, the output last."""
    found = []
    for number, stream in enumerate((*driver.first_inputs, *driver.last_inputs, Stream(along=True))):
        base, rows, lanes = _base(f, number)
        line = f.at(base, f.fetch(rows, row))
        found.append(f.at(line, f.fetch(lanes, lane)) if stream.along else line)
    return found


# What computes a whole tile in registers takes (whole.py): packed rows and lanes, the panel of rows that comes next; where
# initial and final accumulators are stored as well, or null; steps of k, and where the tile is.
WHOLE_ARGUMENTS = {
    **dict.fromkeys(("%context", "%rows", "%lanes", "%ahead", "%seen"), "!llvm.ptr"),
    **dict.fromkeys(("%kc", "%batch", "%row", "%lane"), "i64"),
}

# What computes vectors of a row in place takes (direct.py): the context; the operand of the lanes; the row; where vectors
# of initial and final accumulators are stored as well, a tile each, or null; the place in the output and how many lanes
# there are; the vectors, counted from that place; the ranges of magnitudes of the row and, if it is known, of the lanes.
DIRECT_ARGUMENTS = {
    **dict.fromkeys(("%context", "%src", "%data", "%seen"), "!llvm.ptr"),
    **dict.fromkeys(("%batch", "%row", "%lane", "%lane_count", "%from", "%to"), "i64"),
    **dict.fromkeys(("%rlow", "%rhigh", "%llow", "%lhigh"), "i32"),
}


def _edge_text(
    name: str, driver: Driver, streams: dict[int, Stream], body: Callable[[Code, list[str], str], None]
) -> str:
    """A loop over the rows of a tile and, along each, over runs of adjacent lanes; `streams` by their numbers.

    `body` appends the code for one vector; it gets the address of each stream, last that in the tile, and the mask for
    accesses along the lanes (none if all are there).
    """
    t = driver.kernel.tile
    f = Function(name, _EDGE_ARGUMENTS)
    (lane_run,) = context(f, "lane_run")
    bases = {number: _base(f, number) for number in streams}

    def vector(lines: dict[int, str], tile_row: str, lane: str, step: int | str, mask: str) -> None:
        """One vector of a row, `step` lanes behind `lane`, from where on lanes are adjacent."""
        addresses = [
            f.at(f.at(lines[n], f.fetch(bases[n][2], lane)), step) if stream.along else lines[n]
            for n, stream in streams.items()
        ]
        code = Code(t.width, f"q{len(f.lines)}_")
        body(code, [*addresses, f.at(tile_row, step)], mask)
        f.lines += code.lines

    @contextmanager
    def rows_of_tile() -> Iterator[tuple[str, dict[int, str]]]:
        with f.loop(0, "%row_count") as r:
            row = f.i64("addi", "%row", r)
            lines = {n: f.at(base, f.fetch(rows, row)) for n, (base, rows, _) in bases.items()}
            yield f.at("%tile", f.i64("muli", r, t.lanes)), lines

    plain = f.compare("uge", f.i64("minui", _run_from(f, lane_run, "%lane"), "%lane_count"), f.number(t.lanes), "i64")
    with f.when(plain), rows_of_tile() as (tile_row, lines):
        for v in range(t.vectors):
            vector(lines, tile_row, "%lane", v * t.width, "")
    ragged = f.binary("xori", plain, f.int(-1, "i1"), "i1")
    with f.when(ragged):
        f.line(f"%end = scf.while (%from = {f.number(0)}) : (i64) -> i64 {{")
        f.line("  %more = arith.cmpi ult, %from, %lane_count : i64")
        f.line("  scf.condition(%more) %from : i64")
        f.line("} do {")
        f.line("^bb0(%done: i64):")
        lane = f.i64("addi", "%lane", "%done")
        run = f.i64("minui", _run_from(f, lane_run, lane), f.i64("subi", "%lane_count", "%done"))
        rest = f.i64("remui", run, t.width)
        whole = f.i64("subi", run, rest)
        some, mask = f.compare("ne", rest, f.number(0), "i64"), lanes_below(f, t.width, rest)
        with rows_of_tile() as (tile_row, lines):
            here = f.at(tile_row, "%done")
            with f.loop(0, whole, t.width) as i:
                vector(lines, here, lane, i, "")
            # Masked stores are slow on some processors: only where lanes are missing.
            with f.when(some):
                vector(lines, here, lane, whole, mask)
        f.line(f"scf.yield {f.i64('addi', '%done', run)} : i64")
        f.line("}")
    return f.function()


def _run_from(f: Function, lane_run: str, lane: str) -> str:
    """How many lanes from `lane` on are adjacent in every stream."""
    return f.i64("subi", lane_run, f.i64("remui", lane, lane_run))


def load(code: Code, stream: Stream, address: str, mask: str) -> str:
    """Append the lanes of one vector of a stream, those where the mask is true."""
    return code.load(address, mask) if stream.along else code.splat(address)


def _first_text(driver: Driver) -> str:
    """Initial accumulators: already of the accumulator's format (explicit-arithmetic converts them)."""

    def body(code: Code, addresses: list[str], mask: str) -> None:
        values = [load(code, s, a, mask) for s, a in zip(driver.first_inputs, addresses, strict=False)]
        code.store(driver.first(code, values), addresses[-1], mask)

    if not driver.first_inputs:
        return ""
    return _edge_text("driver_first", driver, dict(enumerate(driver.first_inputs)), body)


def _last_text(driver: Driver) -> str:
    """Results, through the epilogue, to the output."""
    streams = dict(enumerate((*driver.last_inputs, Stream(along=True)), len(driver.first_inputs)))

    def body(code: Code, addresses: list[str], mask: str) -> None:
        values = [load(code, s, a, mask) for s, a in zip(driver.last_inputs, addresses, strict=False)]
        code.store(driver.last(code, [code.load(addresses[-1], mask), *values]), addresses[-2], mask)

    return _edge_text("driver_last", driver, streams, body)


PROBE_TEXT = """
func.func private @numc_probe(%probe: !llvm.ptr, %phase: i64, %batch: i64, %batches: i64, %row: i64, %row_count: i64,
    %rows: i64, %lane: i64, %lane_count: i64, %lanes: i64, %tile: !llvm.ptr, %pitch: i64) APART {
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %b0 = arith.muli %phase, %batches : i64
    %b1 = arith.addi %b0, %batch : i64
    %b2 = arith.muli %b1, %rows : i64
    %b3 = arith.addi %b2, %row : i64
    scf.for %r = %c0 to %row_count step %c1 : i64 {
      %r0 = arith.addi %b3, %r : i64
      %r1 = arith.muli %r0, %lanes : i64
      %r2 = arith.addi %r1, %lane : i64
      %t0 = arith.muli %r, %pitch : i64
      scf.for %l = %c0 to %lane_count step %c1 : i64 {
        %to = arith.addi %r2, %l : i64
        %from = arith.addi %t0, %l : i64
        %to_at = llvm.getelementptr %probe[%to] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %from_at = llvm.getelementptr %tile[%from] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %from_at : !llvm.ptr -> f32
        llvm.store %v, %to_at : f32, !llvm.ptr
      }
    }
    return
}""".replace("APART", APART)


# The runtime takes the address of a task, which only an llvm.func has at this stage.
_ENTRY_TEXT = """
llvm.func @driver(%context: !llvm.ptr, %begin: i64, %end: i64) {
  func.call @driver_body(%context, %begin, %end) : (!llvm.ptr, i64, i64) -> ()
  llvm.return
}"""


def _task_text(driver: Driver) -> str:
    kernel, t = driver.kernel, driver.kernel.tile
    f = Function("driver_body", {"%context": "!llvm.ptr", "%begin": "i64", "%end": "i64"})
    batches, m, n, depth, row_block, lane_block, lane_run = context(
        f, "batches", "rows", "lanes", "depth", "row_block", "lane_block", "lane_run"
    )
    a, b, probe, a_batch, b_batch = context(f, "a", "b", "probe", "a_batch", "b_batch")
    row_words, lane_words = (layout(kernel, side).panel_words(t.k_block) for side in ("rows", "lanes"))
    row_panels, lane_panels = f.i64("divui", row_block, t.rows), f.i64("divui", lane_block, t.lanes)
    # What stays in registers needs no tile, but an observer does: two.
    each = 2 if driver.direct or driver.joins else kernel.tile_words // (t.rows * t.lanes)
    sizes = {"tiles": f.i64("muli", f.i64("muli", row_block, lane_block), each)}
    if driver.packed != "rows":
        sizes |= {"rows": f.i64("muli", row_panels, row_words), "ranges": f.i64("muli", row_panels, 2)}
    if driver.packed != "lanes":
        sizes["lanes"] = f.number(lane_words)
    if driver.plane is not None:
        # A vector of lanes may begin at the last one.
        sizes["plane"] = f.number(driver.plane.words + driver.plane.lanes[-1][1] * t.width)
    if kernel.counts:
        sizes["planes"] = f.number(counters.task_words(t.width, kernel.waiting))
    memory, buffers = _buffers(f, sizes)
    counting, counted = "", list[str]()
    if kernel.counts:
        counts, counting, counted = _counting(f, buffers["planes"], counters.task_words(t.width, kernel.waiting))
    plane = buffers.get("plane", "")
    if driver.plane is not None:  # what is padding once stays it
        with f.loop(0, sizes["plane"]) as i:
            f.line(f"llvm.store {f.f32(0.0)}, {f.at(plane, i)} : f32, !llvm.ptr")
    tiles = buffers["tiles"]
    row_buffer, ranges, lane_buffer = (buffers.get(name, "") for name in ("rows", "ranges", "lanes"))
    row_blocks, lane_blocks = f.i64("ceildivui", m, row_block), f.i64("ceildivui", n, lane_block)
    per_batch = f.i64("muli", row_blocks, lane_blocks)
    k_blocks = f.i64("maxui", f.i64("ceildivui", depth, t.k_block), 1)
    last_block = f.i64("subi", k_blocks, 1)
    row_pitch = _ready_words(f, driver, depth) if driver.packed == "rows" else f.number(row_words)
    observed = f.compare("ne", f.op(f"llvm.ptrtoint {probe} : !llvm.ptr to i64"), f.number(0), "i64")
    seen = f.select(observed, tiles, f.op("llvm.mlir.zero : !llvm.ptr"), "!llvm.ptr")
    one_block = f.compare("eq", last_block, f.number(0), "i64")
    with f.loop("%begin", "%end") as task:
        batch, in_batch = f.i64("divui", task, per_batch), f.i64("remui", task, per_batch)
        i0 = f.i64("muli", f.i64("remui", in_batch, row_blocks), row_block)
        j0 = f.i64("muli", f.i64("divui", in_batch, row_blocks), lane_block)
        a0, b0 = f.fetch(a_batch, batch), f.fetch(b_batch, batch)
        lanes_at = f.at(b, b0)
        lane_limits = [f.int(0), f.int(0)]
        if driver.plane is not None:
            found = f.call("driver_stage", lanes_at, plane, types="!llvm.ptr, !llvm.ptr", results="i32, i32")
            lanes_at, lane_limits = plane, [found + "#0", found + "#1"]
        i_end = f.i64("minui", f.i64("addi", i0, row_block), m)
        j_end = f.i64("minui", f.i64("addi", j0, lane_block), n)
        with f.loop(0, k_blocks) as kb:
            k0 = f.i64("muli", kb, t.k_block)
            kc = f.i64("minui", f.i64("subi", depth, k0), t.k_block)
            is_first, is_last = f.compare("eq", kb, f.number(0), "i64"), f.compare("eq", kb, last_block, "i64")
            if driver.packed != "rows":
                with f.loop(i0, i_end, t.rows) as i:
                    panel = f.i64("divui", f.i64("subi", i, i0), t.rows)
                    count = f.i64("minui", f.i64("subi", i_end, i), t.rows)
                    packed_at = f.at(row_buffer, f.i64("muli", panel, row_pitch))
                    limits = _pack_rows(f, kernel, f.at(a, a0), i, count, k0, kc, packed_at)
                    if kernel.groups is not None:
                        limits = _quantize(f, driver, "rows", kc, packed_at, batch, i, k0)
                    for word, limit in enumerate(limits):
                        place = f.at(ranges, f.i64("addi", f.i64("addi", panel, panel), word), "i32")
                        f.line(f"llvm.store {limit}, {place} : i32, !llvm.ptr")

            def watch(i: str, count: str, j: str, lane_count: str, tiles: Sequence[str]) -> None:
                with f.when(observed):
                    for phase, tile in enumerate(tiles):
                        if tile:
                            numbers = (f.number(phase), batch, batches, i, count, m, j, lane_count, n)
                            types = "!llvm.ptr" + ", i64" * len(numbers) + ", !llvm.ptr, i64"
                            f.call("numc_probe", probe, *numbers, tile, f.number(t.lanes), types=types)

            def row_panel(i: str) -> list[str]:
                if driver.packed == "rows":
                    return _ready(f, driver, a, a0, f.i64("divui", i, t.rows), k0, kb)
                panel = f.i64("divui", f.i64("subi", i, i0), t.rows)
                twice = f.i64("addi", panel, panel)
                limits = [f.fetch(ranges, twice, "i32"), f.fetch(ranges, f.i64("addi", twice, 1), "i32")]
                return [f.at(row_buffer, f.i64("muli", panel, row_pitch)), *limits]

            def in_place(j: str, lane_count: str) -> None:
                with f.loop(i0, i_end) as i:
                    row_data, *row_range = row_panel(i)
                    if driver.plane is None:
                        where = [j, lane_count, f.number(0), f.i64("ceildivui", lane_count, t.width)]
                    else:
                        where = [f.number(n) for n in (0, driver.plane.lanes[-1][0], 0, driver.plane.rows)]
                    arguments = ("%context", lanes_at, row_data, seen, batch, i, *where)
                    f.call(
                        "driver_direct",
                        *arguments,
                        *row_range,
                        *lane_limits,
                        types=", ".join(DIRECT_ARGUMENTS.values()),
                    )
                    watch(i, f.number(1), j, lane_count, (tiles, f.at(tiles, lane_block)))

            def by_tiles(j: str, lane_count: str) -> None:
                panel = f.i64("divui", j, t.lanes)
                if driver.packed == "lanes":
                    lane_data, *lane_range = _ready(f, driver, b, b0, panel, k0, kb)
                else:
                    lane_data = lane_buffer
                    lane_range = _pack_lanes(f, kernel, lanes_at, panel, k0, kc, lane_buffer)
                    if kernel.groups is not None:
                        lane_range = _quantize(f, driver, "lanes", kc, lane_buffer, batch, j, k0)
                column = f.i64("divui", f.i64("subi", j, j0), t.lanes)
                joins = _joins(f, driver, j, lane_count, lane_run, one_block) if driver.joins else ""
                with f.loop(i0, i_end, t.rows) as i:
                    count = f.i64("minui", f.i64("subi", i_end, i), t.rows)
                    row_data, *row_range = row_panel(i)
                    ahead = [f.at(row_data, row_pitch)] if kernel.fetches_ahead else []
                    by_parts: AbstractContextManager[None] = nullcontext()
                    if driver.joins:
                        whole = f.binary("andi", joins, f.compare("eq", count, f.number(t.rows), "i64"), "i1")
                        with f.when(whole):
                            arguments = ("%context", row_data, lane_data, *ahead, seen, kc, batch, i, j)
                            f.call("driver_whole", *arguments, types=", ".join(WHOLE_ARGUMENTS.values()))
                            watch(i, count, j, lane_count, (tiles, f.at(tiles, t.rows * t.lanes)))
                        by_parts = f.when(f.binary("xori", whole, f.int(-1, "i1"), "i1"))
                    with by_parts:
                        # With one block of k no tile has to be kept.
                        panel = f.i64("divui", f.i64("subi", i, i0), t.rows)
                        number = f.i64(
                            "minui",
                            f.i64("addi", f.i64("muli", panel, lane_panels), column),
                            f.i64("muli", last_block, 1 << 40),
                        )
                        tile = f.at(tiles, f.i64("muli", number, kernel.tile_words))
                        edge = ("%context", tile, batch, i, count, j, lane_count)
                        edge_types = "!llvm.ptr, !llvm.ptr, i64, i64, i64, i64, i64"
                        with f.when(is_first):
                            if driver.first_inputs:
                                # Rows and lanes beyond the output are computed, too: on zeros, not on what happens to be there.
                                area = f.i64("muli", count, lane_count)
                                with f.when(f.compare("ne", area, f.number(t.rows * t.lanes), "i64")):
                                    _fill(f, driver, tile)
                                f.call("driver_first", *edge, types=edge_types)
                            else:
                                _fill(f, driver, tile)
                            _fill_sums(f, kernel, tile)
                            watch(i, count, j, lane_count, (tile,))
                        where = [k0] if kernel.needs_k0 else []
                        drawn = _drawn(f, kernel, batch, i, j)
                        extra = [kind for _, kind in kernel.extra]
                        types = ", ".join(["!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i32, i32, i32, i32", *extra])
                        arguments = (
                            row_data,
                            lane_data,
                            tile,
                            kc,
                            count,
                            *row_range,
                            *lane_range,
                            *where,
                            *drawn,
                            *counted,
                            *ahead,
                        )
                        if kernel.narrow:
                            for predicate, name in (("ugt", kernel.name), ("ule", f"{kernel.name}_one")):
                                with f.when(f.compare(predicate, lane_count, f.number(t.width), "i64")):
                                    f.call(name, *arguments, types=types)
                        else:
                            f.call(kernel.name, *arguments, types=types)
                        with f.when(is_last):
                            if kernel.chunks is not None:
                                short = f.compare("ne", f.i64("remui", depth, kernel.chunks.size), f.number(0), "i64")
                                more = [depth, *drawn] if drawn else []
                                kinds = ["i64", *(kind for _, kind in kernel.drawn)] if drawn else []
                                types = ", ".join(["!llvm.ptr, i1", *kinds])
                                f.call(f"{kernel.name}_finish", tile, short, *more, types=types)
                            if kernel.groups is not None and kernel.groups.is_integer:
                                # Without a step there is nothing to add, not even a zero.
                                with f.when(f.compare("ne", depth, f.number(0), "i64")):
                                    rows, rows_kind = _largest(f, driver, "rows", batch, i)
                                    lanes, lanes_kind = _largest(f, driver, "lanes", batch, j)
                                    types = f"!llvm.ptr, {rows_kind}, {lanes_kind}"
                                    f.call(f"{kernel.name}_finish", tile, rows, lanes, types=types)
                            watch(i, count, j, lane_count, ("", tile))
                            f.call("driver_last", *edge, types=edge_types)

            def panels(begin: str, end: str, compute: Callable[[str, str], None]) -> None:
                with f.loop(begin, end, t.lanes) as j:
                    compute(j, f.i64("minui", f.i64("subi", end, j), t.lanes))

            if driver.direct:
                every = f.i64("subi", j_end, j0)
                adjacent = f.compare("uge", _run_from(f, lane_run, j0), every, "i64")
                if counted:  # only tiles are counted
                    adjacent = f.binary("andi", adjacent, f.binary("xori", counting, f.int(-1, "i1"), "i1"), "i1")
                with f.when(adjacent):
                    if driver.plane is not None:
                        in_place(j0, every)
                    else:
                        panels(j0, j_end, in_place)
                with f.when(f.binary("xori", adjacent, f.int(-1, "i1"), "i1")):
                    panels(j0, j_end, by_tiles)
            else:
                panels(j0, j_end, by_tiles)
    if kernel.counts:
        with f.when(counting):
            f.call(f"{kernel.name}_merge", counted[0], types="!llvm.ptr")
            f.call(
                "numc_count", counts, counted[0], f.number(t.width), types="!llvm.ptr, !llvm.ptr, i64", dialect="llvm"
            )
    f.call("numc_free", memory, types="!llvm.ptr", dialect="llvm")
    return f.function()


def _joins(f: Function, driver: Driver, lane: str, lane_count: str, lane_run: str, one_block: str) -> str:
    """Whether tiles at `lane` can be computed by whole.py, if no row of them is missing."""
    lanes = f.number(driver.kernel.tile.lanes)
    adjacent = f.compare("uge", f.i64("minui", _run_from(f, lane_run, lane), lane_count), lanes, "i64")
    return f.binary("andi", adjacent, one_block, "i1")


def _counting(f: Function, planes: str, size: int) -> tuple[str, str, list[str]]:
    """Where counts go, whether there is such a place, and what a counting micro-kernel is told; clears the planes."""
    counts, stride, offset = context(f, "counts", "stride", "offset")
    wanted = f.compare("ne", f.op(f"llvm.ptrtoint {counts} : !llvm.ptr to i64"), f.number(0), "i64")
    with f.when(wanted), f.loop(0, size) as i:
        f.line(f"llvm.store {f.f32(0.0)}, {f.at(planes, i)} : f32, !llvm.ptr")
    never = f.number(counters.NEVER), f.number(counters.NEVER // 2)
    told = [f.select(wanted, *pair, "i64") for pair in zip((stride, offset), never, strict=True)]
    return counts, wanted, [planes, *told]


def _largest(f: Function, driver: Driver, side: str, batch: str, place: str) -> tuple[str, str]:
    """The largest magnitude of an operand and its type; of channels, where that of row or lane `place` is."""
    kernel = driver.kernel
    word, size = context(f, "a_largest" if side == "rows" else "b_largest", side)
    if not kernel.groups_of(side).channel:
        return f.cast("trunci", word, "i64", "i32"), "i32"
    if driver.packed != side:  # a packed weight has one list for all batches
        extent = layout(kernel, side).extent
        padded = f.i64("muli", f.i64("ceildivui", size, extent), extent)
        place = f.i64("addi", place, f.i64("muli", batch, padded))
    return f.at(f.op(f"llvm.inttoptr {word} : i64 to !llvm.ptr"), place, "i32"), "!llvm.ptr"


def _quantize(
    f: Function, driver: Driver, side: str, kc: str, panel: str, batch: str, place: str, k0: str
) -> list[str]:
    """Convert a panel, which begins at row or lane `place` and at step `k0`, to groups; its range."""
    largest, kind = _largest(f, driver, side, batch, place)
    name = f"{driver.kernel.name}_quantize_{side}"
    arguments, types = [panel, kc, largest], ["!llvm.ptr", "i64", kind]
    if driver.kernel.groups_of(side).noise is not None:
        random, batches, places = context(f, "random", "e_batch", "e_row" if side == "rows" else "e_lane")
        arguments += [random, k0, f.fetch(batches, batch), f.at(places, place, "i64")]
        types += DRAWN.values()
    found = f.call(name, *arguments, types=", ".join(types), results="i32, i32")
    return [found + "#0", found + "#1"]


def _drawn(f: Function, kernel: Kernel, batch: str, row: str, lane: str) -> list[str]:
    """What a tile draws from, if it does: as `Kernel.drawn` lists it."""
    if not kernel.drawn:
        return []
    random, batches, rows, lanes = context(f, "random", "e_batch", "e_row", "e_lane")
    return [random, f.fetch(batches, batch), f.at(rows, row, "i64"), f.at(lanes, lane, "i64")]


def _buffers(f: Function, sizes: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Memory of that many f32 numbers, and where each part of it begins: at a multiple of 64 bytes."""
    starts, total = {}, f.number(0)
    for name, size in sizes.items():
        starts[name] = total
        total = f.i64("addi", total, f.i64("muli", f.i64("ceildivui", size, 16), 16))
    memory = f.call("numc_alloc", f.i64("muli", total, 4), types="i64", results="!llvm.ptr", dialect="llvm")
    return memory, {name: f.at(memory, start) for name, start in starts.items()}


def _fill(f: Function, driver: Driver, tile: str) -> None:
    """The initial accumulators if they are a constant, else zeros."""
    t = driver.kernel.tile
    code = Code(t.width, "z")
    value = code.f32(0.0) if driver.first_inputs else driver.first(code, [])
    for n in range(t.rows * t.vectors):
        code.store(value, code.address(tile, n * t.width))
    f.lines += code.lines


def _fill_sums(f: Function, kernel: Kernel, tile: str) -> None:
    """Zeros behind the accumulators: the guard reads the sums of chunks before there are any."""
    t = kernel.tile
    code = Code(t.width, "zs")
    for place in range(t.rows * t.lanes, kernel.tile_words, t.width):
        code.store(code.f32(0.0), code.address(tile, place))
    f.lines += code.lines


_PACK_TYPES = "!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr"


def _pack_rows(f: Function, kernel: Kernel, data: str, row: str, count: str, k0: str, kc: str, to: str) -> list[str]:
    offsets, first, segment, mask = context(f, "a_row", "k_first", "k_segment", "k_mask")
    width = kernel.tile.width
    first = f.at(first, f.i64("divui", k0, width), "i64")
    arguments = (
        data,
        f.at(offsets, row, "i64"),
        count,
        f.number(kernel.tile.rows),
        first,
        segment,
        mask,
        f.i64("ceildivui", kc, width),
        to,
    )
    found = f.call(f"{kernel.name}_pack_rows", *arguments, types=_PACK_TYPES, results="i32, i32")
    return [found + "#0", found + "#1"]


def _pack_lanes(f: Function, kernel: Kernel, data: str, panel: str, k0: str, kc: str, to: str) -> list[str]:
    offsets, first, segment, mask, dense = context(
        f, "b_k", *(f"lane_{n}" for n in ("first", "segment", "mask", "dense"))
    )
    vectors = kernel.tile.vectors
    offsets = f.at(offsets, k0, "i64")
    even = f.i64("addi", kc, f.i64("andi", kc, 1))
    origin = f.fetch(dense, panel)
    scattered = f.compare("eq", origin, f.number(SCATTERED), "i64")
    found = f.op(f"scf.if {scattered} -> (i32, i32) {{")
    f.lines[-1] = f.lines[-1].replace(f"{found} =", f"{found}:2 =")
    first = f.at(first, f.i64("muli", panel, vectors), "i64")
    arguments = (data, offsets, kc, even, first, segment, mask, f.number(vectors), to)
    slow = f.call(f"{kernel.name}_pack_lanes", *arguments, types=_PACK_TYPES, results="i32, i32")
    f.line(f"scf.yield {slow}#0, {slow}#1 : i32, i32")
    f.line("} else {")
    types = "!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr"
    fast = f.call(
        f"{kernel.name}_pack_dense", f.at(data, origin), offsets, kc, even, to, types=types, results="i32, i32"
    )
    f.line(f"scf.yield {fast}#0, {fast}#1 : i32, i32")
    f.line("}")
    return [found + "#0", found + "#1"]


def _ready_words(f: Function, driver: Driver, depth: str) -> str:
    """The size of a panel of the operand packed at compile time, over all of k: `Layout.panel_words`."""
    to = layout(driver.kernel, driver.packed)
    if to.side == "rows":
        return f.i64("muli", f.i64("ceildivui", depth, to.width), to.step_words)
    rest = f.i64("remui", depth, to.k_block)
    steps = f.i64("addi", rest, f.i64("andi", rest, 1))
    if to.pairs and to.group:
        steps = f.i64("addi", steps, f.i64("ceildivui", rest, to.group))
    steps = f.i64("addi", steps, f.i64("muli", f.i64("divui", depth, to.k_block), to.block_steps(to.k_block)))
    return f.i64("muli", steps, to.step_words)


def _ready(f: Function, driver: Driver, data: str, batch: str, panel: str, k0: str, kb: str) -> list[str]:
    """A panel of the operand packed at compile time, from k0 on, and its range (zeros if nobody asks)."""
    to = layout(driver.kernel, driver.packed)
    depth, ranges = context(f, "depth", "ranges")
    words = _ready_words(f, driver, depth)
    by_rows = to.side == "rows"
    before = f.i64("divui", k0, to.width) if by_rows else f.i64("muli", kb, to.block_steps(to.k_block))
    offset = f.i64("addi", f.i64("muli", panel, words), f.i64("addi", f.i64("muli", before, to.step_words), batch))
    found = [f.at(data, offset)]
    if driver.kernel.limits is None:
        return [*found, f.int(0), f.int(0)]
    blocks = f.i64("ceildivui", depth, to.k_block)
    index = f.i64("addi", f.i64("muli", f.i64("addi", f.i64("divui", batch, words), panel), blocks), kb)
    place = f.i64("addi", f.i64("addi", index, index), ranges)
    return [*found, f.fetch(data, place, "i32"), f.fetch(data, f.i64("addi", place, 1), "i32")]
