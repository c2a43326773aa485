"""Entry and exit of a tile whose rows, not its lanes, are adjacent in memory: few pixels, with filters in the lanes.

Squares of the tile are transposed in registers, to and from a buffer that has the rows of one lane after the other.
Vectors along them go through the prologue and the epilogue, as in edges.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from numc.passes.kernels.builder import Function
from numc.passes.kernels.packing.pack_code import transposed
from numc.passes.kernels.packing.segments import lanes_below
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.tasks.edges import ARGUMENTS, Vector, both_edges
from numc.passes.kernels.tasks.interface import Stream, Task, context, run_from, stream_base


def transposed_edges_text(task: Task) -> tuple[str, str]:
    """The functions of edges.py: for initial accumulators, nothing if there are no operands to read; for results."""
    return both_edges(task, _into_tile_text, _out_of_tile_text)


def _into_tile_text(name: str, task: Task, streams: Mapping[int, Stream], vector: Vector) -> str:
    edge = _Edge(name, task, streams)
    for first, size in edge.parts:
        edge.clear()
        edge.by_runs(first, vector)
        edge.into_tile(first, size)
    return edge.f.function()


def _out_of_tile_text(name: str, task: Task, streams: Mapping[int, Stream], vector: Vector) -> str:
    edge = _Edge(name, task, streams)
    for first, size in edge.parts:
        edge.out_of_tile(first, size)
        edge.by_runs(first, vector)
    return edge.f.function()


class _Edge:
    """The rows of a tile in parts, each of which is `width` rows or less; a buffer for one of them.

    parts: the first row of each, and how many there are in a whole tile. streams: by their numbers.
    """

    def __init__(self, name: str, task: Task, streams: Mapping[int, Stream]) -> None:
        self.f, self.tile, self.streams = Function(name, ARGUMENTS), task.kernel.tile, streams
        t = self.tile
        self.width = min(t.width, 1 << (t.rows - 1).bit_length())
        self.parts = [(first, min(self.width, t.rows - first)) for first in range(0, t.rows, self.width)]
        self.code, self.vector = self.f.lanes(t.width), self.f.lanes(self.width)
        self.buffer = self.f.alloca(t.lanes * self.width, "f32")
        (self.row_run,) = context(self.f, "lane_run")
        self.bases = {number: stream_base(self.f, number, stream) for number, stream in streams.items()}

    def clear(self) -> None:
        """Fill the buffer with zeros: rows and lanes beyond the output are computed, too."""
        with self.f.loop(0, self.tile.lanes * self.width, self.tile.width) as n:
            self.code.store(self.code.f32(0.0), self.f.at(self.buffer, n))

    def out_of_tile(self, first: int, size: int) -> None:
        """Copy `size` rows of the tile from `first` on into the buffer."""
        code = self.code
        with self._vectors() as (column, lanes):
            rows = [code.load(self.f.at(column, (first + r) * self.tile.lanes)) for r in range(size)]
            square = [*rows, *[code.f32(0.0)] * (self.width - size)]
            for n, lane in enumerate(transposed(code, square)):
                for begin in range(0, code.width, self.width):
                    part = code.shuffle(lane, range(begin, begin + self.width))
                    self.vector.store(part, self.f.at(lanes, (begin + n) * self.width))

    def into_tile(self, first: int, size: int) -> None:
        """Copy the buffer into these rows of the tile."""
        code = self.code
        with self._vectors() as (column, lanes):
            square = [
                code.joined(
                    [
                        self.vector.load(self.f.at(lanes, (begin + n) * self.width))
                        for begin in range(0, code.width, self.width)
                    ]
                )
                for n in range(self.width)
            ]
            for r, row in enumerate(transposed(code, square)[:size]):
                code.store(row, self.f.at(column, (first + r) * self.tile.lanes))

    @contextmanager
    def _vectors(self) -> Iterator[tuple[Value, Value]]:
        """A loop over the vectors of lanes of the tile; yields where they begin in the tile and in the buffer."""
        f, t = self.f, self.tile
        with f.loop(0, t.lanes, t.width) as lane:
            yield f.at(f["tile"], lane), f.at(self.buffer, f.i64("muli", lane, self.width))

    def by_runs(self, first: int, vector: Vector) -> None:
        """Vectors of the tile's rows from `first` on, one run of adjacent rows after the other."""
        f = self.f
        count = f.i64("minsi", f.i64("subi", f["row_count"], first), self.width)
        with f.repeat([f.number(0)]) as runs:
            runs.going_on(f.compare("slt", runs.before[0], count))
            (done,) = runs.values
            row = f.i64("addi", f["row"], f.i64("addi", done, first))
            end = f.i64("addi", done, f.i64("minui", run_from(f, self.row_run, row), f.i64("subi", count, done)))
            below, before = (lanes_below(f, self.width, n) for n in (end, done))
            mask = self.vector.binary("xori", below, before)
            whole = f.compare("eq", f.i64("subi", end, done), f.number(self.width))
            # Masked stores are slow on some processors: only where rows are missing.
            for condition, some in ((whole, None), (f.negated(whole), mask)):
                with f.when(condition):
                    self._lanes(row, done, vector, some)
            runs.next = [end]

    def _lanes(self, row: Value, done: Value, vector: Vector, mask: Value | None) -> None:
        """The vector of each lane of the tile, of which element `done` is `row`."""
        f = self.f
        starts = {}
        for number, stream in self.streams.items():
            base, rows, _ = self.bases[number]
            start = f.fetch(rows, row)
            starts[number] = f.at(base, f.i64("subi", start, done) if stream.along else start, stream.element)
        with f.loop(0, f["lane_count"]) as n:
            lane = f.i64("addi", f["lane"], n)
            addresses = [
                f.at(start, f.fetch(self.bases[number][2], lane), self.streams[number].element)
                for number, start in starts.items()
            ]
            vector(self.vector, [*addresses, f.at(self.buffer, f.i64("muli", n, self.width))], mask)
