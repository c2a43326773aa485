"""The loops of a linalg.generic on memrefs: their trip counts, and how far each moves in every operand.

Neighbouring loops that are contiguous in all operands are one loop. Sizes and strides that are known at run time only
are symbols, so that equal ones are found to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

from torch_mlir import ir

from numc.compiler.arithmetic.dtypes import NARROW_ELEMENTS
from numc.passes import linalg

_CHEAP = 1
_COSTLY = 8

WIDTHS = {"f32": 4, "f64": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1} | {
    element: narrow.bits // 8 for element, narrow in NARROW_ELEMENTS.items()
}
"""Bytes of an element in memory, of the types that loops are made for."""


class Symbol(NamedTuple):
    """A number that a memref has at run time: the size or the stride of dimension `dim` of operand `operand`."""

    what: Literal["size", "stride"]
    operand: int
    dim: int


@dataclass(frozen=True)
class Size:
    """A product of a number and of symbols."""

    number: int
    symbols: tuple[Symbol, ...] = ()

    def __mul__(self, other: Size) -> Size:
        return Size(self.number * other.number, tuple(sorted(self.symbols + other.symbols)))


ZERO, ONE = Size(0), Size(1)


@dataclass(frozen=True)
class Loop:
    """A loop: its trip count, its stride in every operand in elements, and the linalg dimension, if it is only one."""

    count: Size
    strides: tuple[Size, ...]
    dim: int | None

    def around(self, inner: Loop) -> Loop | None:
        """This loop and `inner` as one, if they walk through every operand without a jump."""
        if any(s != t * inner.count for s, t in zip(self.strides, inner.strides, strict=True)):
            return None
        return Loop(self.count * inner.count, inner.strides, None)


@dataclass(frozen=True)
class Nest:
    """The loops of one linalg.generic, merged where possible.

    types: of the operands, the first `inputs` of which are read. starts: for each operand, the dimensions in which its
    map adds a number to the index, and these numbers. constants, captured: what the body uses from outside. indices:
    the dimension of each linalg.index of the body. cost: of the body, in cheap operations.
    """

    types: list[ir.Type]
    inputs: int
    parallel: list[Loop]
    reductions: list[Loop]
    starts: list[list[tuple[int, int]]]
    constants: list[ir.Operation]
    captured: list[ir.Value]
    indices: list[int]
    cost: int

    @property
    def outer(self) -> list[Loop]:
        """The loops whose iterations are shared out; the last parallel one is inside, unless it is the only one."""
        return self.parallel[:-1] or self.parallel

    @property
    def symbols(self) -> list[Symbol]:
        """All symbols that a trip count or a stride depends on."""
        sizes = [s for loop in (*self.parallel, *self.reductions) for s in (loop.count, *loop.strides)]
        return sorted({symbol for s in sizes for symbol in s.symbols})

    @property
    def iterations(self) -> Size:
        """The iterations that are shared out."""
        return prod((loop.count for loop in self.outer), start=ONE)

    @property
    def work(self) -> Size:
        """The cost of one of these iterations."""
        inside = [*self.parallel[len(self.outer) :], *self.reductions]
        return prod((loop.count for loop in inside), start=ONE) * Size(self.cost)


def element(kind: ir.Type) -> str:
    """The type of an operand's elements; a scalar is one element."""
    return str(kind.element_type) if isinstance(kind, ir.MemRefType) else str(kind)


def in_memory(kind: str) -> str:
    """The type that an element is loaded as and stored as: LLVM has no floating-point types of 8 bits."""
    return "i8" if kind.startswith("f8") else kind


def nest_of(generic: ir.Operation) -> Nest | None:
    """Return the loops of `generic`, or None if its maps or types are of a kind that parallel-loops leaves alone."""
    types = [v.type for v in generic.operands]
    constants, captured = linalg.captured(generic)
    if any(element(t) not in WIDTHS for t in types) or any(str(v.type) not in WIDTHS for v in captured):
        return None
    maps = [_places(m) for m in linalg.indexing_maps(generic)]
    counts = _counts(generic, maps)
    if counts is None:
        return None
    steps = []
    for k, (kind, places) in enumerate(zip(types, maps, strict=True)):
        step = None if places is None else _steps(k, kind, places, counts)
        if places is None or step is None:
            return None
        steps.append(step)
    indices = [int(ir.IntegerAttr(op.attributes["dim"]).value) for op in linalg.operations(generic, "linalg.index")]
    iterators = linalg.iterator_types(generic)

    def loops(kind: str) -> list[Loop]:
        found: list[Loop] = []
        for d, count in enumerate(counts):
            if iterators[d] == kind and count != ONE:
                loop = Loop(count, tuple(step[d] for step in steps), d)
                merged = found[-1].around(loop) if found and not indices else None
                found[-1:] = [merged] if merged else [*found[-1:], loop]
        return found

    return Nest(
        types,
        linalg.input_count(generic),
        loops("parallel") or [Loop(ONE, (ZERO,) * len(types), None)],
        loops("reduction"),
        [[(p, x[1]) for p, x in enumerate(places or ()) if x[1]] for places in maps],
        constants,
        captured,
        indices,
        sum(_cost(op) for op in linalg.operations(generic) if op != generic),
    )


def _cost(op: ir.Operation) -> int:
    return _COSTLY if op.name.split(".")[0] == "math" else _CHEAP


def _places(map_: ir.AffineMap) -> list[linalg.Linear] | None:
    """The results of a map, if all of them are linear."""
    found = [linalg.linear(e) for e in map_.results]
    return None if None in found else [x for x in found if x is not None]


def _counts(generic: ir.Operation, maps: Sequence[list[linalg.Linear] | None]) -> list[Size] | None:
    """The trip counts; None if a map is not linear, or no operand has the size of one of the loops."""
    counts = []
    for d, static in enumerate(linalg.loop_sizes(generic)):
        found = (
            (k, p)
            for k, places in enumerate(maps)
            if places is not None
            for p, x in enumerate(places)
            if x == ({d: 1}, 0)
        )
        place = next(found, None)
        if place is None or None in maps:
            return None
        counts.append(Size(static) if static is not None else Size(1, (Symbol("size", *place),)))
    return counts


def _steps(k: int, kind: ir.Type, places: list[linalg.Linear], counts: list[Size]) -> list[Size] | None:
    """How far each loop moves in operand `k`; None for a diagonal."""
    strides = _strides(k, kind, places, counts) if isinstance(kind, ir.MemRefType) else []
    steps = [ZERO for _ in counts]
    for p, (coefficients, _) in enumerate(places):
        for d, factor in coefficients.items():
            if factor and steps[d] != ZERO:
                return None
            if factor:
                steps[d] = strides[p] * Size(factor)
    return steps


def _strides(k: int, kind: ir.MemRefType, places: list[linalg.Linear], counts: list[Size]) -> list[Size]:
    """The strides of operand `k`; in a dense one, those known at run time are products of sizes."""
    static, _ = kind.get_strides_and_offset()
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    dense = isinstance(kind.layout, ir.AffineMapAttr)
    result: list[Size] = []
    inner = ONE
    for p in reversed(range(kind.rank)):
        if static[p] != dynamic:
            result.append(Size(static[p]))
        elif dense:
            result.append(inner)
        else:
            result.append(Size(1, (Symbol("stride", k, p),)))
        coefficients, constant = places[p]
        if not kind.is_dynamic_dim(p):
            inner = inner * Size(kind.get_dim_size(p))
        elif constant == 0 and list(coefficients.values()) == [1]:
            inner = inner * counts[next(iter(coefficients))]
        else:
            inner = inner * Size(1, (Symbol("size", k, p),))
    return result[::-1]
