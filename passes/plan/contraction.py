"""Contractions as the kernels see them: which operand supplies the rows, which one the lanes, where elements are.

`find` reads a contraction off a linalg.generic; `Contraction` is what of it is written into the plan.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from numc.numerics.defined import served_by
from numc.numerics.operators import Fma
from numc.passes import linalg
from numc.passes.dialect import contracted, number_of, slots_of
from numc.passes.linalg import Linear


@dataclass(frozen=True)
class Shape:
    """Iteration dimensions by their part in the contraction, each in linalg order."""

    batch: list[int]
    rows: list[int]
    lanes: list[int]
    k: list[int]

    @property
    def order(self) -> list[int]:
        """All of them, in the order of a stream's strides."""
        return [*self.batch, *self.rows, *self.lanes, *self.k]


@dataclass(frozen=True)
class Operand:
    """A memref and, for each of its dimensions, the index as a linear function of the contraction's dimensions.

    conversion: what the contraction applies to its values, or nothing.
    """

    value: ir.Value
    places: tuple[Linear, ...]
    conversion: str = ""

    def dims(self) -> set[int]:
        """The contraction's dimensions that address it."""
        return {d for coefficients, _ in self.places for d in coefficients}

    def stride(self, dim: int) -> int | None:
        """The distance in elements of neighbours along a dimension of the contraction, if it is known now."""
        strides = ir.MemRefType(self.value.type).get_strides_and_offset()[0]
        steps = [
            (coefficients[dim], stride)
            for (coefficients, _), stride in zip(self.places, strides, strict=True)
            if dim in coefficients
        ]
        unknown = ir.ShapedType.get_dynamic_stride_or_offset()
        return None if any(s == unknown for _, s in steps) else sum(factor * s for factor, s in steps)

    def without(self, units: set[int]) -> Operand:
        """This operand without the dimensions `units`, of size one: what only they address is one value for all."""
        places = [
            ({d: n for d, n in coefficients.items() if d not in units}, start) for coefficients, start in self.places
        ]
        return Operand(self.value, tuple(places))


@dataclass(kw_only=True)
class Found:
    """One contraction with everything that its call needs.

    fma: the operator of its kernels. operator: that of the definition, which is another one if a user has written what
    an operator of numc does. number: of its operation, if it draws random bits. slots: of its open widths, by what they
    are of. swap: the lanes come from the operator's a, the rows from its b.
    """

    generic: ir.Operation
    fma: Fma
    operator: Fma
    number: int
    slots: dict[str, int]
    swap: bool
    shape: Shape
    rows: Operand
    lanes: Operand
    out: Operand

    @property
    def widths(self) -> tuple[int | None, int | None, int | None]:
        """The slots of the widths of rows, lanes and products, None where they are not open."""
        a, b = self.slots.get("a"), self.slots.get("b")
        return *((b, a) if self.swap else (a, b)), self.slots.get("product")

    @property
    def narrow(self) -> tuple[str, ...]:
        """The sides whose operand lies in memory in the bytes of its format."""
        sides = (("rows", self.rows), ("lanes", self.lanes))
        return tuple(side for side, o in sides if str(ir.MemRefType(o.value.type).element_type) != "f32")

    @functools.cached_property
    def sizes(self) -> dict[int, int]:
        """The sizes of the dimensions that are known now."""
        sizes: dict[int, int] = {}
        for operand in (self.rows, self.lanes, self.out):
            sizes |= static_sizes(operand, ir.MemRefType(operand.value.type))
        return sizes


def find(generic: ir.Operation) -> Found | None:
    """The contraction that a linalg.generic on memrefs is, if its body is one numc.fma and its indices are linear."""
    if not all(isinstance(operand.type, ir.MemRefType) for operand in generic.operands):
        return None
    match = contracted(generic)
    shape = None if match is None else _shape(generic, *match.numbers)
    if match is None or shape is None:
        return None
    swap, groups = shape
    maps, conversions = linalg.indexing_maps(generic), (*match.conversions, "")
    a, b, c = (
        Operand(generic.operands[n], places_of(maps[n]), to) for n, to in zip(match.numbers, conversions, strict=True)
    )
    rows, lanes = (b, a) if swap else (a, b)
    return Found(
        generic=generic,
        fma=served_by(match.fma),
        operator=match.fma,
        number=number_of(match.step),
        slots=slots_of(match.step),
        swap=swap,
        shape=groups,
        rows=rows,
        lanes=lanes,
        out=c,
    )


def places_of(map_: ir.AffineMap) -> tuple[Linear, ...]:
    """The results of a map, which are linear."""
    linear_forms = tuple(linalg.linear(e) for e in map_.results)
    assert None not in linear_forms
    return linear_forms  # type: ignore[return-value]


def _shape(generic: ir.Operation, a: int, b: int, c: int) -> tuple[bool, Shape] | None:
    """Sort the dimensions into batch, rows, lanes and k; True means that A supplies the lanes."""
    maps = linalg.indexing_maps(generic)
    used: list[set[int]] = []
    for n in (a, b, c):
        linear = [linalg.linear(e) for e in maps[n].results]
        if any(x is None for x in linear):
            return None
        used.append({d for x in linear if x is not None for d in x[0]})
    out = [linalg.linear(e) for e in maps[c].results]
    if any(x is None or len(x[0]) != 1 or x[1] != 0 for x in out):
        return None
    kinds = linalg.iterator_types(generic)
    parallel = [d for d, iterator in enumerate(kinds) if iterator == "parallel"]
    only_a = [d for d in parallel if d in used[0] and d not in used[1]]
    only_b = [d for d in parallel if d in used[1] and d not in used[0]]
    batch = [d for d in parallel if d not in only_a and d not in only_b]
    order = [next(iter(x[0])) for x in out if x is not None]
    if set(order) != set(parallel) or len(set(order)) != len(order):
        return None
    if not all(any(x == ({d: 1}, 0) for e in maps for x in map(linalg.linear, e.results)) for d in range(len(kinds))):
        return None  # nothing tells the size of a dimension
    innermost = next((d for d in reversed(order) if d in only_a or d in only_b), None)
    swap = innermost in only_a
    rows, lanes = (only_b, only_a) if swap else (only_a, only_b)
    k = [d for d, iterator in enumerate(kinds) if iterator == "reduction"]
    if not rows:
        apart = _images(places_of(maps[a if swap else b]), lanes, k)
        batch, lanes = sorted([*batch, *apart]), [d for d in lanes if d not in apart]
    return swap, Shape(batch, rows, lanes, k)


def _images(places: Sequence[Linear], lanes: list[int], k: list[int]) -> list[int]:
    """The lanes of a depthwise convolution that number its images: no window slides along them.

    With one row nothing is shared between images, and one of them fits into the cache.
    """
    windows = {d for coefficients, _ in places if set(coefficients) & set(k) for d in coefficients}
    slides = any(d in windows for d in lanes)
    return [d for d in lanes if d not in windows] if slides else []


def exchanged(found: Found) -> Found:
    """A contraction with its rows as lanes and its lanes as rows."""
    shape = replace(found.shape, rows=found.shape.lanes, lanes=found.shape.rows)
    return replace(found, swap=not found.swap, shape=shape, rows=found.lanes, lanes=found.rows)


def size_of(found: Found, dims: list[int]) -> int | None:
    """The number of index combinations of `dims`, if it is known now."""
    sizes = found.sizes
    return math.prod(sizes[d] for d in dims) if all(d in sizes for d in dims) else None


def static_sizes(operand: Operand, kind: ir.MemRefType) -> dict[int, int]:
    """The contraction's dimensions that are a dimension of the memref, with its static size."""
    return {
        next(iter(coefficients)): kind.get_dim_size(n)
        for n, (coefficients, start) in enumerate(operand.places)
        if list(coefficients.values()) == [1] and start == 0 and not kind.is_dynamic_dim(n)
    }


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """A contraction in the IR: the attribute ``numc.contraction``.

    id: its number in the program, -1 for a phase of one (skip_zeros.py). layer, role: as policies name them. batch,
    rows, lanes, k: the linalg dimensions of each kind; sizes: of all dimensions, -1 where it is not known. phases:
    another branch computes it by phases, where nobody watches.
    """

    id: int
    layer: str
    operator: str
    role: str
    swap: bool
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    lanes: tuple[int, ...]
    k: tuple[int, ...]
    sizes: tuple[int, ...]
    phases: bool


def described(found: Found, id_: int, layer: str, role: str, *, phases: bool) -> Contraction:
    """The description of a contraction that was found in the IR."""
    shape, sizes = found.shape, found.sizes
    every = tuple(sizes.get(d, -1) for d in range(len(shape.order)))
    return Contraction(
        id=id_,
        layer=layer,
        operator=str(found.fma),
        role=role,
        swap=found.swap,
        batch=tuple(shape.batch),
        rows=tuple(shape.rows),
        lanes=tuple(shape.lanes),
        k=tuple(shape.k),
        sizes=every,
        phases=phases,
    )
