"""The way through a block of k for large graphs: the accumulators of one row after the other, from memory and back.

A graph of many operations has no room beside all accumulators in registers. So some steps of k are prepared first: what
the graph needs of each operand alone (operand_parts.py) is computed once, of rows for a vector of steps at a time, and
kept in memory. Then every row takes these steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from numc.numerics.circuits.number import Number
from numc.numerics.circuits.ordering import Node
from numc.numerics.circuits.traced import Traced
from numc.numerics.defined import Graph, regular_below, traced
from numc.passes.kernels.datapaths.datapath import NOTHING, Accumulators, Micro
from numc.passes.kernels.datapaths.defined.operand_parts import OperandParts, Use
from numc.passes.kernels.datapaths.defined.whole_numbers import element_of
from numc.passes.kernels.datapaths.defined.writer import Made, Writer, has_value, sources
from numc.passes.kernels.datapaths.reads import fetch_ahead, lane_values, row_places, vector_of
from numc.passes.kernels.ssa import Type, Value
from numc.passes.kernels.values.carrier import F32

_LINE = 64  # bytes of a cache line, and of the widest vector


@dataclass(frozen=True)
class Room:
    """Memory of a micro-kernel: accumulators, those of the tile or copies, and the parts of rows and of lanes for some
    steps of k.

    The parts of a row are one after the other, each for all steps; those of a vector of lanes are for each step.
    """

    parts: OperandParts
    sums: Value
    rows: Value
    lanes: Value


def steps_together(m: Micro, length: int) -> int:
    """Steps of k that are prepared together: whole blocks of `length`, about as many as a vector has lanes."""
    return length * max(1, m.setting.tile.width // length)


def prepared(m: Micro, sums: Value | None) -> Room:
    """Append the allocation of that memory. sums: where accumulators are, if the tile has them."""
    parts = OperandParts(_graphs(m))
    graph = parts.graphs[0]
    steps = steps_together(m, len(graph.a))
    row_words, lane_words = (_starts(parts, m, m.setting.operand(side))[-1] for side in ("rows", "lanes"))
    if sums is None:
        sums = m.f.alloca(m.rows * m.vectors * _sum_words(m, graph), "f32", _LINE)
    sizes = m.rows * row_words * _row_steps(m, parts), steps * m.vectors * lane_words * m.setting.tile.width
    return Room(parts, sums, *(m.f.alloca(max(size, 1), "f32", _LINE) for size in sizes))


def walk_rows(m: Micro, first: Value, end: Value, values: Accumulators, room: Room) -> Accumulators:
    """The steps of k from `first` up to `end`. values: those of accumulators that are not in the tile."""
    f, code, length = m.f, m.code, len(room.parts.graphs[0].a)
    size = _sum_words(m, room.parts.graphs[0])
    addresses = [f.at(room.sums, n * size) for n in range(len(values))]
    for value, address in zip(values, addresses, strict=True):
        code.store(value, address)
    steps = steps_together(m, length)
    with f.loop(first, end, steps) as begin:
        stop = f.i64("minsi", f.i64("addi", begin, steps), end)
        blocks = f.i64("ceildivui", f.i64("subi", stop, begin), length)
        filled = f.i64("addi", begin, f.i64("muli", blocks, length))
        _prepare_rows(m, room, begin, filled, end)
        _prepare_lanes(m, room, begin, filled, end)
        with f.loop(begin, stop, length) as k:
            fetch_ahead(m, k)
            _rows(m, room, begin, k)
    return [code.load(address, element=value.type.element) for value, address in zip(values, addresses, strict=True)]


def _graphs(m: Micro) -> list[Graph]:
    """The graph of most blocks, and one that serves every accumulator, if that is another one."""
    every = traced(m.setting.fma, usual=m.fast)
    regular = traced(m.setting.fma, usual=m.fast, regular=True)
    is_shorter = isinstance(every.c, Traced) and len(regular.numbers) < len(every.numbers)
    return [regular, every] if m.fast and is_shorter else [every]


def _sum_type(graph: Graph) -> Type:
    return Type(element_of(graph.c) if isinstance(graph.c, Number) else "f32")


def _sum_words(m: Micro, graph: Graph) -> int:
    """The size of a vector of accumulators, in words."""
    return _sum_type(graph).bits // 32 * m.setting.tile.width


def _starts(parts: OperandParts, m: Micro, side: int) -> list[int]:
    """Where each part of an operand begins, in words, and the size of all of them."""
    return [0, *accumulate(Type(element).bits // 32 for element in parts.elements(side))]


def _row_steps(m: Micro, parts: OperandParts) -> int:
    """Room for the steps of a row in whole vectors, wherever in one they begin."""
    width, steps = m.setting.tile.width, steps_together(m, len(parts.graphs[0].a))
    return (-(-steps // width) + 1) * width


def _prepare_rows(m: Micro, room: Room, begin: Value, filled: Value, end: Value) -> None:
    """Compute the parts of rows, vectors of steps from that on which has `begin`; beyond `end` operands are +0."""
    f, code, width, parts = m.f, m.code, m.setting.tile.width, room.parts
    first, side = vector_of(m, begin), m.setting.operand("rows")
    *starts, size = _starts(parts, m, side)
    last, pitch = vector_of(m, f.i64("subi", end, 1)), _row_steps(m, parts)
    with f.loop(first, filled, width) as vector:
        left = f.cast("trunci", f.i64("subi", end, vector), "i32")
        there = code.compare("slt", code.counting(), code.broadcast(left))
        inside = f.i64("minsi", vector, last)
        position = f.i64("subi", vector, first)
        for row, (address,) in enumerate(row_places(m, inside, inside)):
            if m.setting.rows.in_place:
                x = code.load(address, there)
            else:
                x = code.select(there, code.load(address), code.f32(0.0))
            for start, value in zip(starts, parts.emitted(code, side, x), strict=True):
                at = f.at(room.rows, (row * size + start) * pitch)
                code.store(value, f.at(at, position, value.type.element))


def _prepare_lanes(m: Micro, room: Room, begin: Value, filled: Value, end: Value) -> None:
    """Compute the parts of the lanes, step by step; beyond `end` operands are +0."""
    f, stop = m.f, m.f.i64("minsi", filled, end)
    with f.loop(begin, stop) as k:
        _keep_lanes(m, room, f.i64("subi", k, begin), [lanes for (lanes,) in lane_values(m, k)])
    with f.loop(stop, filled) as k:
        _keep_lanes(m, room, f.i64("subi", k, begin), [m.code.f32(0.0)] * m.vectors)


def _keep_lanes(m: Micro, room: Room, step: Value, lanes: Sequence[Value]) -> None:
    """Store the parts of the lanes of a step, of which `step` is the number among those that are prepared together."""
    f, parts, width = m.f, room.parts, m.setting.tile.width
    side = m.setting.operand("lanes")
    *starts, size = _starts(parts, m, side)
    at = f.at(room.lanes, f.i64("muli", step, m.vectors * size * width))
    for vector, x in enumerate(lanes):
        for start, value in zip(starts, parts.emitted(m.code, side, x), strict=True):
            m.code.store(value, f.at(at, (vector * size + start) * width))


def _rows(m: Micro, room: Room, begin: Value, k: Value) -> None:
    """The block of products that begins at step `k`, row by row; those with an accumulator that is not finite apart."""
    f = m.f
    with f.loop(0, m.rows) as row:
        block = _Block(m, room, begin, k, row)
        if len(room.parts.graphs) == 1:
            block.append(0)
            return
        with f.choose(f.seldom(_any_special(m, block.sums))) as choice:
            with choice.then():
                block.append(1)
            with choice.otherwise():
                block.append(0)


def _any_special(m: Micro, sums: Value) -> Value:
    """Whether an accumulator of a row is an infinity or a NaN, or not regular otherwise."""
    f, code, special = m.f, m.code, m.code.int(0, "i1")
    least = code.int(F32.power(regular_below(m.setting.fma)))
    for vector in range(m.vectors):
        bits = code.load(f.at(sums, vector * code.width), element="i32")
        size = code.binary("andi", bits, code.int(F32.sign - 1))
        special = code.binary("ori", special, code.compare("sge", size, least))
    return code.reduce("or", special)


class _Block:
    """Appends one block of products for the accumulators of a row, which begin at `sums`."""

    def __init__(self, m: Micro, room: Room, begin: Value, k: Value, row: Value) -> None:
        f, self.m, self.room = m.f, m, room
        self.sums = f.at(room.sums, f.i64("muli", row, m.vectors * _sum_words(m, room.parts.graphs[0])))
        self.starts = [_starts(room.parts, m, side) for side in (0, 1)]
        self.row_side, self.lane_side = (m.setting.operand(side) for side in ("rows", "lanes"))
        self.pitch = _row_steps(m, room.parts)
        of_row = f.at(room.rows, f.i64("muli", row, self.starts[self.row_side][-1] * self.pitch))
        self.position = f.i64("subi", k, vector_of(m, begin))
        step = m.vectors * self.starts[self.lane_side][-1] * m.setting.tile.width
        of_lanes = f.at(room.lanes, f.i64("muli", f.i64("subi", k, begin), step))
        self.places = [of_row, of_lanes]

    def append(self, number: int) -> None:
        """Append graph `number`, on all vectors of the row operation by operation.

        A product is read when the one before has been added: LLVM, left free, reads all of them and spills registers.
        """
        m, code, parts, graph = self.m, self.m.code, self.room.parts, self.room.parts.graphs[number]
        size, element = _sum_words(m, graph), _sum_type(graph).element
        addresses = [m.f.at(self.sums, vector * size) for vector in range(m.vectors)]
        made: Made = {}
        writers = [
            Writer(code, {id(graph.c): code.load(at, element=element)}, made, m.setting.instructions)
            for at in addresses
        ]
        reads = _Reads(self, self.places)
        current, last = -1, None
        for node in (*parts.rest[number], None):
            for each in self._taken(graph, node):
                use = parts.uses[id(each)]
                if use.product != current and last is not None:
                    reads = _Reads(self, self._held(writers, last, reads))
                current = use.product
                for vector, writer in enumerate(writers):
                    writer.known[id(each)] = reads.part(use, vector)
            if node is not None and has_value(node):
                last = node
                for writer in writers:
                    writer.append([node])
        for writer, at in zip(writers, addresses, strict=True):
            code.store(writer.accumulator(m.setting.fma, graph.result, NOTHING), at)

    def _taken(self, graph: Graph, node: Node | None) -> list[Node]:
        """The parts of operands that a number is computed from; of None, those that the result takes when rounded."""
        if node is None:
            numbers = [graph.result] if has_value(graph.result) else sources(graph.result)
        else:
            numbers = sources(node) if has_value(node) else []
        return [each for each in numbers if id(each) in self.room.parts.uses]

    def _held(self, writers: Sequence[Writer], last: Node, reads: _Reads) -> Sequence[Value]:
        """Where the operands are, as known only once a number has been computed."""
        values = [writer.known[id(last)] for writer in writers]
        isa = self.m.setting.instructions
        if values[0].type.bits != 32 or values[0].type.lanes != isa.width:
            return reads.places
        places = isa.barrier(self.m.code, [*values, *reads.places])
        for writer, value in zip(writers, places, strict=False):
            writer.known[id(last)] = value
        return places[len(writers) :]


class _Reads:
    """Reads the parts of operands of a row and of lanes, which begin at `places`."""

    def __init__(self, block: _Block, places: Sequence[Value]) -> None:
        self.block, self.places = block, places
        self._known: dict[Use, Value] = {}

    def part(self, use: Use, vector: int) -> Value:
        """Append a part of an operand, as the graph takes it."""
        if use.operand == self.block.lane_side:
            return self._lanes(use, vector)
        if use not in self._known:
            self._known[use] = self._row(use)
        return self._known[use]

    def _row(self, use: Use) -> Value:
        block, m, parts = self.block, self.block.m, self.block.room.parts
        element = parts.elements(use.operand)[use.part]
        part = m.f.at(self.places[0], block.starts[use.operand][use.part] * block.pitch)
        address = m.f.at(m.f.at(part, block.position, element), use.product, element)
        return parts.read(m.code, use, m.code.splat(address, element))

    def _lanes(self, use: Use, vector: int) -> Value:
        block, m, parts = self.block, self.block.m, self.block.room.parts
        element, starts = parts.elements(use.operand)[use.part], block.starts[use.operand]
        step = use.product * m.vectors * starts[-1]
        address = m.f.at(self.places[1], (step + vector * starts[-1] + starts[use.part]) * m.setting.tile.width)
        return parts.read(m.code, use, m.code.load(address, element=element))
