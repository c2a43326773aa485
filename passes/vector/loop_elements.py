"""The elements of a nest of loops: where they are in memory, how they get into lanes, and what is computed of them.

A vector has neighbouring outputs in its lanes. What is not contiguous along them, but along another loop, is read from
memory as it lies there, some steps of that loop at a time, and transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch_mlir import ir

from numc.passes.buffers.loop_nest import (
    ONE,
    TWO,
    WIDTHS,
    ZERO,
    Loop,
    Nest,
    Size,
    Symbol,
    element,
    in_memory,
    read_across,
)
from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.ssa import Value

BODY = "numc_body"
# Steps of a loop that are read together: the 32-bit elements of the smallest vector.
STEPS = 4
# Elements that a permutation of f32 lanes moves.
_PERMUTED = ("f32", "i32")

Number = int | Value


def body_declaration(nest: Nest, lanes: int) -> str:
    """The declaration of the function that stands for the body, on vectors of so many lanes, 0 for scalars."""

    def of(kind: str) -> str:
        return f"vector<{lanes}x{kind}>" if lanes else kind

    arguments = [of(element(t)) for t in nest.types] + [of(str(v.type)) for v in nest.captured]
    made = ", ".join(of(element(t)) for t in nest.types[nest.inputs :])
    return f"func.func private @{_body(lanes)}({', '.join([*arguments, *['index'] * len(nest.indices)])}) -> ({made})"


def _body(lanes: int) -> str:
    return f"{BODY}_{lanes}" if lanes else BODY


def value_of(f: Code, size: Size, symbols: Mapping[Symbol, Value]) -> Value:
    """The value of a size (i64)."""
    return f.number(_product(f, [size.number, *(symbols[symbol] for symbol in size.symbols)]))


def trips(f: Code, loops: Sequence[Loop], symbols: Mapping[Symbol, Value]) -> Number:
    """The number of iterations of these loops that are shared out."""
    counts: list[Number] = []
    for loop in loops:
        if loop.count.symbols:
            count = value_of(f, loop.count, symbols)
            counts.append(count if loop.together == 1 else f.i64("ceildivui", count, loop.together))
        else:
            counts.append(-(-loop.count.number // loop.together))
    return _product(f, counts)


def _product(f: Code, numbers: Sequence[Number]) -> Number:
    known, result = 1, None
    for number in numbers:
        if isinstance(number, int):
            known *= number
        else:
            result = number if result is None else f.i64("muli", result, number)
    if result is None:
        return known
    return result if known == 1 else f.i64("muli", known, result)


@dataclass(frozen=True)
class Place:
    """Where the loops stand: the offset in every operand, and the index in each linalg dimension that a loop is."""

    offsets: tuple[Number, ...]
    indices: dict[int, Value]


class Near(NamedTuple):
    """Where elements of a row are that are looked up, a vector of them: all in the vector from the index `first` on?

    is_near: i1. there: the lanes of that vector that are in the row. lane: where the elements are in it.
    """

    first: Value
    is_near: Value
    there: Value
    lane: Value


def in_rows(nest: Nest, loop: Loop, lanes: int) -> bool:
    """Whether every input is contiguous along `loop`, or the same, for as many steps as lanes if that is known."""
    near = all(loop.strides[k] in (ZERO, ONE) for k in range(nest.inputs))
    return near and not nest.indices and bool(loop.count.symbols or loop.count.number >= lanes)


def gets_in_lanes(nest: Nest, k: int) -> bool:
    """Whether input `k` of a reduction gets into lanes without a load for each of them."""
    return nest.parallel[-1].strides[k] in (ZERO, ONE, TWO) or k in _contiguous(nest, nest.reductions[-1])


def _contiguous(nest: Nest, loop: Loop) -> list[int]:
    """The inputs that are read along `loop` and transposed."""
    return read_across(nest.types, nest.inputs, loop, nest.parallel[-1])


class Elements:
    """Reads and writes the elements of a nest's operands in `code`, and calls its body on them.

    operands: pointers, or the scalars that operands are.
    """

    def __init__(
        self,
        code: Code,
        nest: Nest,
        operands: Sequence[Value],
        captured: Sequence[Value],
        symbols: Mapping[Symbol, Value],
        isa: InstructionSet,
    ) -> None:
        self.code, self.nest, self.operands, self.captured, self.symbols = code, nest, operands, captured, symbols
        self.isa = isa
        # The lanes of vectors that are read and written, and how many they are, unless that is all.
        self.mask: Value | None = None
        self.left: Value | None = None
        self.near: Mapping[int, Near] = {}  # of the operands for which it is known beforehand

    def size(self, size: Size) -> Value:
        """The value of a size (i64)."""
        return value_of(self.code, size, self.symbols)

    def moved(self, place: Place, loop: Loop, by: Value) -> Place:
        """The place after `by` steps of `loop`."""
        f, offsets = self.code, []
        for offset, stride in zip(place.offsets, loop.strides, strict=True):
            if stride != ZERO:
                step = by if stride == ONE else f.i64("muli", by, self.size(stride))
                offset = step if isinstance(offset, int) else f.i64("addi", offset, step)
            offsets.append(offset)
        indices = place.indices if loop.dim is None else {**place.indices, loop.dim: by}
        return Place(tuple(offsets), indices)

    def contiguous(self, loop: Loop) -> bool:
        """Whether some input is read along `loop` and transposed."""
        return bool(_contiguous(self.nest, loop))

    def load(self, k: int, place: Place, lanes: int = 0) -> Value:
        """Element `k` at a place, or those of so many steps of the last parallel loop from there on."""
        f, nest, offset = self.code, self.nest, self.code.number(place.offsets[k])
        last = nest.parallel[-1]
        varying = []
        for table, step, size in nest.lookups.get(k, ()):
            if lanes and last.strides[table] != ZERO:
                varying.append((table, step, size))
            else:
                offset = f.i64("addi", offset, self._index(table, place.offsets[table], step))
        if nest.checks and k in nest.lookups:
            return self._checked(k, offset, place)
        if not varying:
            return self._load_at(k, offset, lanes)
        if lanes == self.isa.width and self.isa.permute is not None and self.is_row(k, varying):
            return self._near(k, offset, varying[0], place=place, lanes=lanes, permute=self.isa.permute)
        return self._far(k, offset, varying, place, lanes)

    def _checked(self, k: int, offset: Value, place: Place) -> Value:
        """An element that is looked up, if its indices are inside: a check of the body ends the run otherwise."""
        f, element_type = self.code, element(self.nest.types[k])
        inside = f.int(-1, "i1")
        for table, _, size in self.nest.lookups[k]:
            index = self._index(table, place.offsets[table], ONE)
            inside = f.binary("andi", inside, f.compare("ult", index, self.size(size)))
        with f.choose(inside, f.ty(element_type)) as choice:
            with choice.then():
                choice.next = [self._scalar(k, offset)]
            with choice.otherwise():
                zero, stored = (
                    f.zero(element_type if element_type == "i1" else in_memory(element_type)),
                    in_memory(element_type),
                )
                choice.next = [zero if element_type in ("i1", stored) else f.cast("bitcast", zero, element_type)]
        return choice.results[0]

    def is_row(self, k: int, tables: Sequence[tuple[int, Size, Size]]) -> bool:
        """Whether the elements of operand `k` that the indices of `tables` name are of one row, and can be permuted."""
        last, element_type = self.nest.parallel[-1], element(self.nest.types[k])
        contiguous = len(tables) == 1 and tables[0][1] == ONE and last.strides[tables[0][0]] == ONE
        return contiguous and last.strides[k] == ZERO and element_type in _PERMUTED

    def _load_at(self, k: int, offset: Value, lanes: int) -> Value:
        """Elements of operand `k` from an offset on, for so many steps of the last parallel loop."""
        f, stride = self.code.lanes(lanes), self.nest.parallel[-1].strides[k]
        if lanes == 0:
            return self._scalar(k, offset)
        if stride == ZERO:
            return f.broadcast(self._scalar(k, offset))
        if stride == ONE:
            return self._vector(k, offset, lanes)
        if stride == TWO:  # nothing beyond the last of these elements is read
            low = self._vector(k, offset, lanes)
            high = self._vector(k, self.code.i64("addi", offset, lanes - 1), lanes)
            half = lanes // 2
            return f.shuffle(low, [*range(0, lanes, 2), *(lanes + 1 + 2 * n for n in range(half))], high)
        return f.gathered([self._scalar(k, row) for row in self._spread(k, offset, lanes)])

    def _index(self, table: int, offset: Number, step: Size) -> Value:
        """The distance by which an index moves that is read from input `table` (i64)."""
        f = self.code
        index = self._scalar(table, f.number(offset))
        index = index if index.type.element == "i64" else f.cast("extsi", index, "i64")
        return index if step == ONE else f.i64("muli", index, self.size(step))

    def _far(self, k: int, offset: Value, varying: Sequence[tuple[int, Size, Size]], place: Place, lanes: int) -> Value:
        """Elements that are looked up one by one."""
        f, offsets = self.code, self._spread(k, offset, lanes)
        for table, step, _ in varying:
            rows = self._lane_offsets(table, place, lanes)
            moves = [self._index(table, row, step) for row in rows]
            offsets = [f.i64("addi", *pair) for pair in zip(offsets, moves, strict=True)]
        return f.gathered([self._scalar(k, each) for each in offsets])

    def _near(
        self,
        k: int,
        offset: Value,
        lookup: tuple[int, Size, Size],
        place: Place,
        lanes: int,
        permute: Callable[[Code, Value, Value], Value],
    ) -> Value:
        """Elements of a row whose indices are read: if all lie in the vector from the first on, lanes of that."""
        f, v = self.code, self.code.lanes(lanes)
        element_type = element(self.nest.types[k])
        first, is_near, there, lane = self.near.get(k) or self.looked_up(lookup, place, lanes)
        with f.choose(is_near, v.ty(element_type)) as choice:
            with choice.then():
                row = v.load(self._address(k, f.i64("addi", offset, first)), there)
                permuted = permute(v, row, lane)
                choice.next = [permuted if element_type == "f32" else v.reinterpret(permuted, v.ty(element_type))]
            with choice.otherwise():
                choice.next = [self._far(k, offset, [lookup], place, lanes)]
        return choice.results[0]

    def looked_up(self, lookup: tuple[int, Size, Size], place: Place, lanes: int) -> Near:
        """Where the elements of a row are whose indices are read at a place."""
        f, v = self.code, self.code.lanes(lanes)
        table, _, extent = lookup
        first = self._index(table, place.offsets[table], ONE)
        indices = self._vector(table, f.number(place.offsets[table]), lanes)
        wide = indices.type.element
        distances = v.binary("subi", indices, v.broadcast(self._integer(first, wide)))
        near = v.compare("ult", distances, v.int(lanes, wide))
        if self.mask is not None:
            near = v.select(self.mask, near, v.int(1, "i1"))
        inside = f.reinterpret(near, f"i{lanes}")
        # The dimension may end within the vector.
        left = f.i64("minsi", f.i64("subi", self.size(extent), first), lanes)
        there = v.compare("slt", v.counting(), v.broadcast(self._integer(left, "i32")))
        lane = distances if wide == "i32" else v.cast("trunci", distances, "i32")
        return Near(first, f.compare("eq", inside, f.int(-1, f"i{lanes}")), there, lane)

    def _integer(self, number: Value, element: str) -> Value:
        return number if element == "i64" else self.code.cast("trunci", number, element)

    def _lane_offsets(self, k: int, place: Place, lanes: int) -> list[Value]:
        return self._spread(k, place.offsets[k], lanes)

    def _spread(self, k: int, offset: Number, lanes: int) -> list[Value]:
        """The offset of each lane; a lane that is left out has that of the last one."""
        f, stride = self.code, self.size(self.nest.parallel[-1].strides[k])
        numbers: Sequence[Number] = range(lanes)
        if self.left is not None:
            last = f.i64("subi", self.left, 1)
            numbers = [f.i64("minsi", last, lane) for lane in range(lanes)]
        return [f.i64("addi", offset, f.i64("muli", stride, number)) for number in numbers]

    def _scalar(self, k: int, offset: Value) -> Value:
        element_type = element(self.nest.types[k])
        if not isinstance(self.nest.types[k], ir.MemRefType):
            return self.operands[k]
        return self._read(self.code, k, offset, element_type)

    def _vector(self, k: int, offset: Value, lanes: int) -> Value:
        return self._read(self.code.lanes(lanes), k, offset, element(self.nest.types[k]))

    def _read(self, code: Code, k: int, offset: Value, kind: str) -> Value:
        mask = self.mask if code.width else None
        value = code.load(self._address(k, offset), mask, element=in_memory(kind), alignment=WIDTHS[kind])
        return value if value.type.element == kind else code.cast("trunci" if kind == "i1" else "bitcast", value, kind)

    def _address(self, k: int, offset: Value) -> Value:
        return self.code.at(self.operands[k], offset, in_memory(element(self.nest.types[k])))

    def blocks(
        self, loop: Loop, place: Place, start: Value, lanes: int, steps: int = STEPS
    ) -> Iterator[tuple[dict[int, Value], Place]]:
        """The steps of a loop from `start` on: the inputs that are contiguous along it, transposed, and the place.

        steps: STEPS, or as many as lanes.
        """
        f = self.code
        first = self.moved(place, loop, start)
        read = {k: self._transposed(k, first, lanes, steps) for k in _contiguous(self.nest, loop)}
        for step in range(steps):
            there = self.moved(place, loop, f.i64("addi", start, step))
            yield {k: vectors[step] for k, vectors in read.items()}, there

    def rows(self, loop: Loop, place: Place, lanes: int, steps: int) -> list[list[Value]]:
        """So many steps of a loop, from each lane's place on: for every lane a vector of each input."""
        read = []
        for k in range(self.nest.inputs):
            offsets = self._lane_offsets(k, place, lanes)
            if loop.strides[k] == ONE:
                read.append([self._vector(k, offset, steps) for offset in offsets])
            else:
                read.append([self.code.lanes(steps).broadcast(self._scalar(k, offset)) for offset in offsets])
        return [list(values) for values in zip(*read, strict=True)]

    def _transposed(self, k: int, place: Place, lanes: int, steps: int) -> list[Value]:
        """As many vectors as steps: operand `k`, read along the loop it is contiguous along, from each lane's place."""
        f = self.code.lanes(steps)
        rows = [self._vector(k, offset, steps) for offset in self._lane_offsets(k, place, lanes)]
        if steps == lanes:
            return columns(f, rows)
        # Row n of every four rows in a vector, so that transposing does not move anything beyond four lanes.
        return _in_fours(f, [f.joined(rows[n::STEPS]) for n in range(STEPS)])

    def store(self, k: int, place: Place, value: Value) -> None:
        """Store element `k` at a place, or the elements in the lanes of a vector from there on."""
        stored_type = in_memory(value.type.element)
        change = "extui" if value.type.element == "i1" else "bitcast"
        stored = value if value.type.element == stored_type else self.code.cast(change, value, stored_type)
        address = self._address(k, self.code.number(place.offsets[k]))
        self.code.store(stored, address, self.mask, alignment=WIDTHS[element(self.nest.types[k])])

    def call(self, values: Sequence[Value], place: Place, lanes: int = 0) -> list[Value]:
        """The body on `values`, the operands' elements."""
        f, nest = self.code, self.nest
        zero = f.number(0)
        indices = [f.cast("index_cast", place.indices.get(d, zero), "index") for d in nest.indices]
        captured = [f.lanes(lanes).broadcast(value) for value in self.captured]
        made = ", ".join(str(f.lanes(lanes).ty(element(t))) for t in nest.types[nest.inputs :])
        return f.call(_body(lanes), *values, *captured, *indices, results=made)


def columns(f: Code, rows: Sequence[Value]) -> list[Value]:
    """As many vectors as they have lanes, transposed: the first has the first lane of every row."""
    fours = [_in_fours(f, rows[n : n + STEPS]) for n in range(0, len(rows), STEPS)]
    blocks = [_in_blocks(f, [four[n] for four in fours]) for n in range(STEPS)]
    return [blocks[n % STEPS][n // STEPS] for n in range(len(rows))]


def _in_fours(f: Code, rows: Sequence[Value]) -> list[Value]:
    """Four vectors, of which each four lanes are transposed: the first has the first of each four lanes of all rows."""
    lanes = rows[0].type.lanes

    def zipped(a: Value, b: Value, order: tuple[int, int, int, int]) -> Value:
        fours = range(0, lanes, STEPS)
        return f.shuffle(a, [four + n % STEPS + n // STEPS * lanes for four in fours for n in order], b)

    low, high = (0, 4, 1, 5), (2, 6, 3, 7)
    pairs = [zipped(a, b, order) for a, b in (rows[:2], rows[2:]) for order in (low, high)]
    ends = (0, 1, 4, 5), (2, 3, 6, 7)
    return [zipped(pairs[n], pairs[n + 2], order) for n in range(2) for order in ends]


def _in_blocks(f: Code, rows: Sequence[Value]) -> list[Value]:
    """As many vectors as `rows`, transposed in blocks of four lanes: the first has the first block of every row."""
    if len(rows) == 1:
        return list(rows)
    lanes = rows[0].type.lanes

    def chosen(first: int) -> list[Value]:
        order = [n for block in range(first, 2 * lanes // STEPS, 2) for n in range(block * STEPS, (block + 1) * STEPS)]
        return _in_blocks(f, [f.shuffle(a, order, b) for a, b in zip(rows[::2], rows[1::2], strict=True)])

    return [vector for pair in zip(chosen(0), chosen(1), strict=True) for vector in pair]
