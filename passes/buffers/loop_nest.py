"""The loops of a linalg.generic on memrefs: their trip counts, and how far each moves in every operand.

Neighbouring loops that are contiguous in all operands are one loop. Sizes and strides that are known at run time only
are symbols, so that equal ones are found to be equal. What can be computed in the lanes of vectors, and along which
loop an operand is read whose neighbours are not neighbours in the output, is decided here, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Literal, NamedTuple

from torch_mlir import ir

from numc.numerics.dtypes import NARROW_ELEMENTS
from numc.passes import linalg
from numc.passes.buffers.loop_lookups import has_checks, lookups_of, take_out
from numc.passes.kernels.values.function_table import FUNCTIONS

# Costs: of an operation, which a vector of 16 lanes does in a cycle or less; of an operand's element, which is read or
# written; of an element that is transposed; of other operations of math, and of elementary functions.
_CHEAP, _MOVED, _TRANSPOSED, _COSTLY, _FUNCTION = 1, 3, 6, 8, 32
# Operations on floats that give the same bits in any order, and if they meet an element twice.
_EXTREMES = ("arith.maximumf", "arith.minimumf")
# Elements that can be in lanes of a vector, as they are in memory.
_LANES = ("f32", "f64", "i32", "i64", "i8", *NARROW_ELEMENTS)
# Steps of the loop across that are shared out together: what is read along them fills whole lines of the cache.
_TOGETHER = 64

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


ZERO, ONE, TWO = Size(0), Size(1), Size(2)


@dataclass(frozen=True)
class Loop:
    """A loop: its trip count, its stride in every operand in elements, and the linalg dimension, if it is only one.

    together: how many of its steps are shared out as one iteration.
    """

    count: Size
    strides: tuple[Size, ...]
    dim: int | None
    together: int = 1

    def around(self, inner: Loop) -> Loop | None:
        """This loop and `inner` as one, if they walk through every operand without a jump."""
        if any(s != t * inner.count for s, t in zip(self.strides, inner.strides, strict=True)):
            return None
        return Loop(self.count * inner.count, inner.strides, None)


@dataclass(frozen=True, kw_only=True)
class Nest:
    """The loops of one linalg.generic, merged where possible.

    operands, types: the first `inputs` of them are read, and the last of these looked up. starts: for each operand, the
    dimensions in which its map adds a number to the index, and these numbers. firsts: for each operand, the first one
    that begins at the same address, so that LLVM knows what is written over. constants, captured: what the body uses
    from outside. indices: the dimension of each linalg.index of the body. cost: of the body, in cheap operations.
    in_lanes: whether the body can be computed on vectors of neighbouring outputs. across: if it can and there are no
    reductions, the parallel loop along which some operand is contiguous that is not so along the last one; it is the
    last but one. has_functions: whether the body has elementary functions. extreme: the one of _EXTREMES that a
    reduction of f32 is. lookups: of every operand that is looked up, the inputs that its indices are read from, how far
    each moves, and the size of the dimension. checks: whether the body has some, as of an index that is read: elements
    that are not there must not be looked up before it. rows: how many rows there are if the nest is a step of a chain
    that is computed by rows (rows.py): then `outer` begins with them, and its iterations may be cut between any two.
    """

    operands: list[ir.Value]
    types: list[ir.Type]
    inputs: int
    parallel: list[Loop]
    reductions: list[Loop]
    starts: list[list[tuple[int, int]]]
    firsts: list[int]
    constants: list[ir.Operation]
    captured: list[ir.Value]
    indices: list[int]
    cost: int
    in_lanes: bool
    across: Loop | None
    has_functions: bool
    extreme: str | None
    lookups: dict[int, list[tuple[int, Size, Size]]]
    checks: bool
    rows: Size | None

    @property
    def outer(self) -> list[Loop]:
        """The loops whose iterations are shared out; the last parallel one is inside, unless it is the only one."""
        return self.parallel[:-1] or self.parallel

    @property
    def symbols(self) -> list[Symbol]:
        """All symbols that a trip count or a stride depends on."""
        sizes = [s for loop in (*self.parallel, *self.reductions) for s in (loop.count, *loop.strides)]
        sizes += [size for tables in self.lookups.values() for _, *both in tables for size in both]
        return sorted({symbol for s in sizes for symbol in s.symbols})

    @property
    def work(self) -> Size:
        """The cost of one of the iterations that are shared out."""
        inside = [*self.parallel[len(self.outer) :], *self.reductions]
        together = Size(prod(loop.together for loop in self.outer))
        return prod((loop.count for loop in inside), start=ONE) * together * Size(self.cost)


def form_of(nest: Nest) -> tuple[Hashable, ...]:
    """All that the code around a body depends on: nests of one form have the same code."""
    outside = ("operands", "constants")  # what calls the code, and what is in the body
    form = {f.name: getattr(nest, f.name) for f in fields(nest) if f.name not in outside}
    form["captured"] = [str(value.type) for value in nest.captured]
    form["starts"] = [tuple(each) for each in nest.starts]
    form["lookups"] = [(number, *tables) for number, tables in nest.lookups.items()]
    return tuple(tuple(each) if isinstance(each, list) else each for each in form.values())


def element(kind: ir.Type) -> str:
    """The type of an operand's elements; a scalar is one element."""
    return str(kind.element_type) if isinstance(kind, ir.MemRefType) else str(kind)


def in_memory(kind: str) -> str:
    """The type that an element is loaded and stored as: LLVM would convert narrow floats, and bools are bytes."""
    if kind == "i1":
        return "i8"
    return f"i{NARROW_ELEMENTS[kind].bits}" if kind in NARROW_ELEMENTS else kind


def nest_of(generic: ir.Operation, rows: int = 0) -> Nest | None:
    """Return the loops of `generic`, or None if its maps or types are of a kind that parallel-loops leaves alone.

    rows: how many of its first dimensions are the rows of a chain, if it is a step of one.
    """
    looked = lookups_of(generic)
    if looked is None or (looked and linalg.reduces(generic)):
        return None
    own_inputs = linalg.input_count(generic)
    inputs = own_inputs + len(looked)
    sources = [lookup.source for lookup in looked]
    operands = [*list(generic.operands)[:own_inputs], *sources, *list(generic.operands)[own_inputs:]]
    types = [v.type for v in operands]
    constants, captured = linalg.captured(generic)
    captured = [v for v in captured if v not in sources]
    if any(element(t) not in WIDTHS for t in types) or any(str(v.type) not in WIDTHS for v in captured):
        return None
    own = [_places(m) for m in linalg.indexing_maps(generic)]
    maps = [*own[:own_inputs], *(lookup.places for lookup in looked), *own[own_inputs:]]
    counts = _counts(generic, [None if own_inputs <= k < inputs else places for k, places in enumerate(maps)])
    if counts is None or None in own:
        return None
    steps, lookups = [], {}
    for k, (operand_type, places) in enumerate(zip(types, maps, strict=True)):
        assert places is not None
        if own_inputs <= k < inputs:
            strides = _strides(k, operand_type, places, [])
            tables = looked[k - own_inputs].tables
            lookups[k] = [(table, strides[p], _extent(k, operand_type, p)) for p, table in tables]
        else:
            strides = _strides(k, operand_type, places, counts) if isinstance(operand_type, ir.MemRefType) else []
        step = _steps(strides, places, counts)
        if step is None:
            return None
        steps.append(step)
    take_out(generic, looked)
    constants, captured = linalg.captured(generic)
    indices = [int(ir.IntegerAttr(op.attributes["dim"]).value) for op in linalg.operations(generic, "linalg.index")]
    iterators = linalg.iterator_types(generic)

    def loops(kind: str, dims: range) -> list[Loop]:
        nest: list[Loop] = []
        for d in dims:
            if iterators[d] == kind and counts[d] != ONE:
                loop = Loop(counts[d], tuple(step[d] for step in steps), d)
                merged = nest[-1].around(loop) if nest and not indices else None
                nest[-1:] = [merged] if merged else [*nest[-1:], loop]
        return nest

    unit = Loop(ONE, (ZERO,) * len(types), None)
    of_rows, inside = loops("parallel", range(rows)), loops("parallel", range(rows, len(counts)))
    if len(of_rows) > 1 and not inside:  # the last loop is not shared out unless it is the only one
        inside = [unit]
    parallel = [*of_rows, *inside] or [unit]
    reductions = loops("reduction", range(len(counts)))
    # Outputs that are neighbours in memory are in the lanes of a vector.
    in_lanes = _has_lanes(generic) and all(s == ONE for s in parallel[-1].strides[inputs:])
    across = None
    if in_lanes and not reductions and not looked:
        across = next(
            (
                n
                for n in range(len(of_rows), len(parallel) - 1)
                if read_across(types, inputs, parallel[n], parallel[-1])
            ),
            None,
        )
    inner = reductions[-1:] if across is None else [parallel[across]]
    starts = [[(p, x[1]) for p, x in enumerate(places or ()) if x[1]] for places in maps]
    begins = list(zip(operands, starts, strict=True))
    if across is not None:
        parallel.insert(-1, replace(parallel.pop(across), together=_TOGETHER))
    return Nest(
        operands=operands,
        types=types,
        inputs=inputs,
        parallel=parallel,
        reductions=reductions,
        starts=starts,
        firsts=[begins.index(begin) for begin in begins],
        constants=constants,
        captured=captured,
        indices=indices,
        cost=sum(_cost(op) for op in linalg.operations(generic) if op != generic)
        + _MOVED * len(types)
        + _COSTLY * len(looked)
        + _TRANSPOSED * (in_lanes and any(read_across(types, inputs, loop, parallel[-1]) for loop in inner)),
        in_lanes=in_lanes,
        across=None if across is None else parallel[-2],
        has_functions=any(op.name in FUNCTIONS for op in linalg.operations(generic)),
        extreme=_extreme(generic),
        lookups=lookups,
        checks=has_checks(generic),
        rows=prod(counts[:rows], start=ONE) if rows else None,
    )


def _has_lanes(generic: ir.Operation) -> bool:
    """Whether the body consists of operations that do the same on vectors, on elements that can be in lanes."""
    values = [v for op in linalg.body(generic).operations for v in (*op.operands, *op.results)]
    ops = list(linalg.body(generic).operations)[:-1]
    return (
        all(str(v.type) in _LANES for v in linalg.body(generic).arguments)
        and all(op.operation.name.split(".")[0] in ("arith", "math") and len(op.results) == 1 for op in ops)
        and not any(isinstance(v.type, ir.IndexType) for v in values)
    )


def _extreme(generic: ir.Operation) -> str | None:
    """The one of _EXTREMES that a reduction of f32 is, of whatever it computes of the inputs."""
    block = linalg.body(generic)
    *_, last = block.operations
    running = block.arguments[len(block.arguments) - 1]
    made = list(last.operands)
    if not linalg.reduces(generic) or len(made) != 1 or not isinstance(made[0], ir.OpResult):
        return None
    combiner = made[0].owner.operation
    only = [use.owner.operation for use in running.uses] == [combiner]
    return str(combiner.name) if only and combiner.name in _EXTREMES and str(running.type) == "f32" else None


def read_across(types: list[ir.Type], inputs: int, loop: Loop, last: Loop) -> list[int]:
    """The inputs that are contiguous along `loop` and not along `last`, of elements that can be transposed."""
    return [
        k
        for k in range(inputs)
        if loop.strides[k] == ONE and last.strides[k] not in (ZERO, ONE) and WIDTHS[element(types[k])] == 4
    ]


def _cost(op: ir.Operation) -> int:
    if op.name in FUNCTIONS:
        return _FUNCTION
    return _COSTLY if op.name.split(".")[0] == "math" else _CHEAP


def _places(map_: ir.AffineMap) -> list[linalg.Linear] | None:
    """The results of a map, if all of them are linear."""
    linear_forms = [linalg.linear(e) for e in map_.results]
    return None if None in linear_forms else [x for x in linear_forms if x is not None]


def _counts(generic: ir.Operation, maps: Sequence[list[linalg.Linear] | None]) -> list[Size] | None:
    """The trip counts; None if no operand has the size of one of the loops. An operand may have no map that tells."""
    counts = []
    for d, static in enumerate(linalg.loop_sizes(generic)):
        candidates = (
            (k, p)
            for k, places in enumerate(maps)
            if places is not None
            for p, x in enumerate(places)
            if x == ({d: 1}, 0)
        )
        operand_dim = next(candidates, None)
        if operand_dim is None:
            return None
        counts.append(Size(static) if static is not None else Size(1, (Symbol("size", *operand_dim),)))
    return counts


def _steps(strides: list[Size], places: list[linalg.Linear], counts: list[Size]) -> list[Size] | None:
    """The distance by which each loop moves in an operand; None for a diagonal."""
    steps = [ZERO for _ in counts]
    for p, (coefficients, _) in enumerate(places):
        for d, factor in coefficients.items():
            if factor and steps[d] != ZERO:
                return None
            if factor:
                steps[d] = strides[p] * Size(factor)
    return steps


def _extent(k: int, kind: ir.MemRefType, p: int) -> Size:
    """The size of dimension `p` of operand `k`."""
    return Size(1, (Symbol("size", k, p),)) if kind.is_dynamic_dim(p) else Size(kind.get_dim_size(p))


def _strides(k: int, kind: ir.MemRefType, places: list[linalg.Linear], counts: list[Size]) -> list[Size]:
    """The strides of operand `k`; in a dense one, those known at run time are products of sizes.

    counts: of the loops, each as long as the dimension that it alone is the index of; none if that is not known.
    """
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
        elif counts and constant == 0 and list(coefficients.values()) == [1]:
            inner = inner * counts[next(iter(coefficients))]
        else:
            inner = inner * Size(1, (Symbol("size", k, p),))
    return result[::-1]
