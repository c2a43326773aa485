"""The elements of a nest of loops: where they are in memory, how they get into lanes, and what is computed of them.

A vector has neighbouring outputs in its lanes. What is not contiguous along them, but along another loop, is read from
memory as it lies there, some steps of that loop at a time, and transposed in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from numc.passes.kernels.ssa import Value

BODY = "numc_body"
# Steps of a loop that are read together: the 32-bit elements of the smallest vector.
STEPS = 4

Number = int | Value


def body_declaration(nest: Nest, lanes: int) -> str:
    """The declaration of the function that stands for the body, on vectors of so many lanes, 0 for scalars."""

    def of(kind: str) -> str:
        return f"vector<{lanes}x{kind}>" if lanes else kind

    given = [of(element(t)) for t in nest.types] + [of(str(v.type)) for v in nest.captured]
    made = ", ".join(of(element(t)) for t in nest.types[nest.inputs :])
    return f"func.func private @{_body(lanes)}({', '.join([*given, *['index'] * len(nest.indices)])}) -> ({made})"


def _body(lanes: int) -> str:
    return f"{BODY}_{lanes}" if lanes else BODY


def value_of(f: Code, size: Size, symbols: Mapping[Symbol, Value]) -> Value:
    """The value of a size (i64)."""
    return f.number(_product(f, [size.number, *(symbols[symbol] for symbol in size.symbols)]))


def trips(f: Code, loops: Sequence[Loop], symbols: Mapping[Symbol, Value]) -> Number:
    """How many iterations of these loops are shared out."""
    found: list[Number] = []
    for loop in loops:
        if loop.count.symbols:
            count = value_of(f, loop.count, symbols)
            found.append(count if loop.together == 1 else f.i64("ceildivui", count, loop.together))
        else:
            found.append(-(-loop.count.number // loop.together))
    return _product(f, found)


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
    ) -> None:
        self.code, self.nest, self.operands, self.captured, self.symbols = code, nest, operands, captured, symbols

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
        f, stride = self.code.lanes(lanes), self.nest.parallel[-1].strides[k]
        if lanes == 0:
            return self._scalar(k, self.code.number(place.offsets[k]))
        if stride == ZERO:
            return f.broadcast(self._scalar(k, self.code.number(place.offsets[k])))
        if stride == ONE:
            return self._vector(k, self.code.number(place.offsets[k]), lanes)
        if stride == TWO:  # nothing beyond the last of these elements is read
            low = self._vector(k, self.code.number(place.offsets[k]), lanes)
            high = self._vector(k, self.code.i64("addi", place.offsets[k], lanes - 1), lanes)
            half = lanes // 2
            return f.shuffle(low, [*range(0, lanes, 2), *(lanes + 1 + 2 * n for n in range(half))], high)
        return f.gathered([self._scalar(k, row) for row in self._lane_offsets(k, place, lanes)])

    def _lane_offsets(self, k: int, place: Place, lanes: int) -> list[Value]:
        f, stride = self.code, self.size(self.nest.parallel[-1].strides[k])
        return [f.i64("addi", place.offsets[k], f.i64("muli", stride, lane)) for lane in range(lanes)]

    def _scalar(self, k: int, offset: Value) -> Value:
        kind = element(self.nest.types[k])
        if not isinstance(self.nest.types[k], ir.MemRefType):
            return self.operands[k]
        value = self.code.load(self._address(k, offset), element=in_memory(kind), alignment=WIDTHS[kind])
        return value if value.type.element == kind else self.code.cast("bitcast", value, kind)

    def _vector(self, k: int, offset: Value, lanes: int) -> Value:
        kind = element(self.nest.types[k])
        return self.code.lanes(lanes).load(self._address(k, offset), element=kind, alignment=WIDTHS[kind])

    def _address(self, k: int, offset: Value) -> Value:
        return self.code.at(self.operands[k], offset, in_memory(element(self.nest.types[k])))

    def blocks(self, loop: Loop, place: Place, start: Value, lanes: int) -> Iterator[tuple[dict[int, Value], Place]]:
        """STEPS steps of a loop from `start` on: the inputs that are contiguous along it, transposed, and the place."""
        f = self.code
        first = self.moved(place, loop, start)
        read = {k: self._transposed(k, first, lanes) for k in _contiguous(self.nest, loop)}
        for step in range(STEPS):
            there = self.moved(place, loop, f.i64("addi", start, step))
            yield {k: vectors[step] for k, vectors in read.items()}, there

    def _transposed(self, k: int, place: Place, lanes: int) -> list[Value]:
        """STEPS vectors: operand `k`, read along the loop it is contiguous along, from each lane's place."""
        f = self.code.lanes(STEPS)
        rows = [self._vector(k, offset, STEPS) for offset in self._lane_offsets(k, place, lanes)]
        # Row n of every four rows in a vector, so that transposing does not move anything beyond four lanes.
        parts = [f.joined(rows[n::STEPS]) for n in range(STEPS)]

        def zipped(a: Value, b: Value, order: tuple[int, int, int, int]) -> Value:
            fours = range(0, lanes, STEPS)
            return f.shuffle(a, [four + n % STEPS + n // STEPS * lanes for four in fours for n in order], b)

        low, high = (0, 4, 1, 5), (2, 6, 3, 7)
        pairs = [zipped(a, b, order) for a, b in (parts[:2], parts[2:]) for order in (low, high)]
        ends = (0, 1, 4, 5), (2, 3, 6, 7)
        return [zipped(pairs[n], pairs[n + 2], order) for n in range(2) for order in ends]

    def store(self, k: int, place: Place, value: Value) -> None:
        """Store element `k` at a place, or the elements in the lanes of a vector from there on."""
        kind = in_memory(value.type.element)
        stored = value if value.type.element == kind else self.code.cast("bitcast", value, kind)
        address = self._address(k, self.code.number(place.offsets[k]))
        self.code.store(stored, address, alignment=WIDTHS[element(self.nest.types[k])])

    def call(self, values: Sequence[Value], place: Place, lanes: int = 0) -> list[Value]:
        """The body on `values`, the operands' elements."""
        f, nest = self.code, self.nest
        zero = f.number(0)
        indices = [f.cast("index_cast", place.indices.get(d, zero), "index") for d in nest.indices]
        captured = [f.lanes(lanes).broadcast(value) for value in self.captured]
        made = ", ".join(str(f.lanes(lanes).ty(element(t))) for t in nest.types[nest.inputs :])
        return f.call(_body(lanes), *values, *captured, *indices, results=made)
