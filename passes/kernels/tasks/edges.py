# ruff: noqa: E501 - the long lines are MLIR text
"""What the functions of one contraction share: the context they read, and what is computed at a tile's entry and exit.

task.py calls them; register_tile.py and unpacked_row.py are other ways through a tile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from numc.passes.kernels.builder import APART, Code, Function
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.packing.segments import lanes_below
from numc.passes.plan.padding import Plane

# The words of the context a task reads; runtime/src/contract.cpp fills them. Then, for each stream: data and tables.
# ranges: where the guard's data begins in the packed weight, in f32 numbers. a_largest, b_largest: the largest magnitudes
# of the operands (encodings), where groups are converted by them; of channels, where those of all batches are. counts:
# where an observer wants additions counted (counting.py), by this stride and offset.
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
    the lanes need not be packed (unpacked_row.py), else 0. plane: what the lanes are read from if it is made first (padding.py).
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
        """Whether whole tiles go from their initial values to the epilogue in registers (register_tile.py)."""
        if not self.kernel.joins:
            return False
        code = Code(self.kernel.tile.width)
        self.first(code, ["%x"] * len(self.first_inputs))
        self.last(code, ["%x"] * (1 + len(self.last_inputs)))
        return len(code.lines) <= _SHORT and not any(" = math." in line for line in code.lines)


def context(f: Function, *names: str) -> list[str]:
    """Load the words of the context called `names`."""
    return [f.fetch("%context", CONTEXT.index(n), "i64" if n in _NUMBERS else "!llvm.ptr") for n in names]


# What the functions of an edge take: the context, a tile, and where it is.
EDGE_ARGUMENTS = {
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


# What computes a whole tile in registers takes (register_tile.py): packed rows and lanes, the panel of rows that comes next; where
# initial and final accumulators are stored as well, or null; steps of k, and where the tile is.
WHOLE_ARGUMENTS = {
    **dict.fromkeys(("%context", "%rows", "%lanes", "%ahead", "%seen"), "!llvm.ptr"),
    **dict.fromkeys(("%kc", "%batch", "%row", "%lane"), "i64"),
}

# What computes vectors of a row in place takes (unpacked_row.py): the context; the operand of the lanes; the row; where vectors
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
    f = Function(name, EDGE_ARGUMENTS)
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

    plain = f.compare("uge", f.i64("minui", run_from(f, lane_run, "%lane"), "%lane_count"), f.number(t.lanes), "i64")
    with f.when(plain), rows_of_tile() as (tile_row, lines):
        for v in range(t.vectors):
            vector(lines, tile_row, "%lane", v * t.width, "")
    ragged = f.negated(plain)
    with f.when(ragged):
        f.line(f"%end = scf.while (%from = {f.number(0)}) : (i64) -> i64 {{")
        f.line("  %more = arith.cmpi ult, %from, %lane_count : i64")
        f.line("  scf.condition(%more) %from : i64")
        f.line("} do {")
        f.line("^bb0(%done: i64):")
        lane = f.i64("addi", "%lane", "%done")
        run = f.i64("minui", run_from(f, lane_run, lane), f.i64("subi", "%lane_count", "%done"))
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


def run_from(f: Function, lane_run: str, lane: str) -> str:
    """How many lanes from `lane` on are adjacent in every stream."""
    return f.i64("subi", lane_run, f.i64("remui", lane, lane_run))


def load(code: Code, stream: Stream, address: str, mask: str) -> str:
    """Append the lanes of one vector of a stream, those where the mask is true."""
    return code.load(address, mask) if stream.along else code.splat(address)


def edges_text(driver: Driver) -> tuple[str, str]:
    """The functions ``@driver_first``, nothing if there are no operands to read, and ``@driver_last``."""
    return _first_text(driver), _last_text(driver)


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
