"""Entry and exit of a tile in memory: the functions that compute its initial accumulators and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.packing.segments import lanes_below
from numc.passes.kernels.ssa import PTR, Value
from numc.passes.kernels.tasks.interface import SELF, Stream, Task, context, load, run_from, step, store, stream_base

PROLOGUE, EPILOGUE = f"{SELF}_prologue", f"{SELF}_epilogue"

#: What both take: the context, a tile, and where it is.
ARGUMENTS = {
    **dict.fromkeys(("context", "tile"), PTR),
    **dict.fromkeys(("batch", "row", "row_count", "lane", "lane_count"), "i64"),
}

Vector = Callable[[Code, Sequence[Value], Value | None], None]
"""Appends the code for one vector, given the address of each stream, that in the tile, and the mask (None if all are
there) for accesses along it."""
Edge = Callable[[str, Task, Mapping[int, Stream], Vector], str]
"""The function with this name that does so for all vectors of a tile; streams by their numbers."""


def edges_text(task: Task) -> tuple[str, str]:
    """The functions for initial accumulators, nothing if there are no operands to read, and for results."""
    return both_edges(task, _edge_text, _edge_text)


def both_edges(task: Task, into_tile: Edge, out_of_tile: Edge) -> tuple[str, str]:
    """The two functions, of which these write the loops."""
    prologue = dict(enumerate(task.prologue_streams))
    epilogue = dict(enumerate((*task.epilogue_streams, task.output), len(prologue)))

    def begin(code: Code, addresses: Sequence[Value], mask: Value | None) -> None:
        """Initial accumulators: already of the accumulator's format (explicit-arithmetic converts them)."""
        values = [load(code, s, a, mask) for s, a in zip(task.prologue_streams, addresses, strict=False)]
        code.store(task.prologue(code, values), addresses[-1], mask)

    def end(code: Code, addresses: Sequence[Value], mask: Value | None) -> None:
        """Results, through the epilogue, to the output."""
        values = [load(code, s, a, mask) for s, a in zip(task.epilogue_streams, addresses, strict=False)]
        accumulators = code.load(addresses[-1], mask)
        store(code, task.output, task.epilogue(code, [accumulators, *values]), addresses[-2], mask)

    first = into_tile(PROLOGUE, task, prologue, begin) if prologue else ""
    return first, out_of_tile(EPILOGUE, task, epilogue, end)


def _edge_text(name: str, task: Task, streams: Mapping[int, Stream], body: Vector) -> str:
    return _Edge(name, task, streams, body).text()


class _Edge:
    """A loop over the rows of a tile and, along each, over runs of adjacent lanes; `streams` by their numbers."""

    def __init__(self, name: str, task: Task, streams: Mapping[int, Stream], body: Vector) -> None:
        self.f, self.tile = Function(name, ARGUMENTS), task.kernel.tile
        self.streams, self.body = streams, body
        (self.lane_run,) = context(self.f, "lane_run")
        self.bases = {number: stream_base(self.f, number, stream) for number, stream in streams.items()}

    def text(self) -> str:
        """The function: vectors without a mask where all lanes of a tile are there and adjacent."""
        f, t = self.f, self.tile
        lane, lane_count = f["lane"], f["lane_count"]
        adjacent = f.i64("minui", run_from(f, self.lane_run, lane), lane_count)
        plain = f.compare("uge", adjacent, f.number(t.lanes))
        with f.when(plain), self._rows() as (tile_row, lines):
            for v in range(t.vectors):
                self._vector(lines, tile_row, lane, v * t.width, None)
        with f.when(f.negated(plain)):
            self._by_runs()
        return f.function()

    def _by_runs(self) -> None:
        """One run of adjacent lanes after the other."""
        f, t, lane_count = self.f, self.tile, self.f["lane_count"]
        with f.repeat([f.number(0)]) as runs:
            runs.going_on(f.compare("ult", runs.before[0], lane_count))
            (done,) = runs.values
            lane = f.i64("addi", f["lane"], done)
            run = f.i64("minui", run_from(f, self.lane_run, lane), f.i64("subi", lane_count, done))
            rest = f.i64("remui", run, t.width)
            full = f.i64("subi", run, rest)
            some, mask = f.compare("ne", rest, f.number(0)), lanes_below(f, t.width, rest)
            with self._rows() as (tile_row, lines):
                here = f.at(tile_row, done)
                with f.loop(0, full, t.width) as i:
                    self._vector(lines, here, lane, i, None)
                # Masked stores are slow on some processors: only where lanes are missing.
                with f.when(some):
                    self._vector(lines, here, lane, full, mask)
            runs.next = [f.i64("addi", done, run)]

    @contextmanager
    def _rows(self) -> Iterator[tuple[Value, dict[int, Value]]]:
        """A loop over the rows of the tile; yields the address of each in the tile and in the streams."""
        f = self.f
        with f.loop(0, f["row_count"]) as r:
            row = f.i64("addi", f["row"], r)
            lines = {
                n: f.at(base, f.fetch(rows, row), self.streams[n].element) for n, (base, rows, _) in self.bases.items()
            }
            yield f.at(f["tile"], f.i64("muli", r, self.tile.lanes)), lines

    def _vector(
        self, lines: Mapping[int, Value], tile_row: Value, lane: Value, by: int | Value, mask: Value | None
    ) -> None:
        """One vector of a row, `by` lanes behind `lane`, from where on lanes are adjacent."""
        f = self.f
        addresses = []
        for n, stream in self.streams.items():
            line = lines[n]
            if stream.along:
                line = step(f, stream, f.at(line, f.fetch(self.bases[n][2], lane), stream.element), by)
            addresses.append(line)
        self.body(f.lanes(self.tile.width), [*addresses, f.at(tile_row, by)], mask)
