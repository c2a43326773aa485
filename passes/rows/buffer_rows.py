"""Rows of buffers: how the first dimensions of a buffer divide it, and which dimensions of an operation count them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from numc.passes import linalg
from numc.passes.buffers.loop_nest import WIDTHS, element
from numc.passes.buffers.views import VIEWS
from numc.passes.linalg import Linear

# What looks at a whole buffer in the order of its elements.
WHOLE_VIEWS = ("memref.cast", "memref.expand_shape", "memref.collapse_shape", "memref.reshape")


@dataclass(frozen=True)
class Rows:
    """The division of a buffer into rows, all dimensions of size 1 left out.

    count: their number, None if a size is free; then the runtime compares the numbers of all steps. inside: how many
    dimensions a row has.
    """

    count: int | None
    inside: int


def _size(kind: ir.MemRefType, n: int) -> int:
    return -1 if kind.is_dynamic_dim(n) else kind.get_dim_size(n)


def bytes_of(buffer: ir.Value) -> float:
    """The size of a buffer, infinite if it is known at run time only."""
    memref_type = ir.MemRefType(buffer.type)
    return math.prod(memref_type.shape) * WIDTHS[element(memref_type)] if memref_type.has_static_shape else math.inf


def base(value: ir.Value) -> ir.Value:
    """The buffer that `value` is a view of."""
    while (op := linalg.maker(value)) is not None and op.name in (*VIEWS, "memref.reshape"):
        value = op.operands[0]
    return value


def _has_whole_rows(value: ir.Value, rows: Rows) -> bool:
    """Whether `value` is a view of a buffer that has the same rows, and of each of them the same part."""
    view = linalg.maker(value)
    if view is None or view.name != "memref.subview":
        return _is_whole(value)
    source = view.operands[0]
    count = _first_dims(ir.MemRefType(source.type), rows) if _is_whole(source) else None
    view_type = ir.MemRefType(value.type)
    if count is None or view_type.rank != ir.MemRefType(source.type).rank:
        return False
    dynamic, operands = ir.ShapedType.get_dynamic_size(), list(view.operands)
    offsets, sizes, steps = (list(view.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
    first = 1 + offsets.count(dynamic)
    taken = [operands[first + sizes[:n].count(dynamic)] if sizes[n] == dynamic else sizes[n] for n in range(count)]
    if offsets[:count] != [0] * count or steps[:count] != [1] * count:
        return False
    whole = _sizes(source)[:count]
    return all(size is not None for size in whole) and taken == whole


def _sizes(value: ir.Value) -> list[int | ir.Value | None]:
    """The sizes of a memref, numbers or what its allocation was given; None where neither is known."""
    memref_type, maker = ir.MemRefType(value.type), linalg.maker(value)
    dynamic_sizes = iter(maker.operands if maker is not None and maker.name == "memref.alloc" else ())
    return [
        next(dynamic_sizes, None) if memref_type.is_dynamic_dim(n) else memref_type.get_dim_size(n)
        for n in range(memref_type.rank)
    ]


def _is_whole(value: ir.Value) -> bool:
    """Whether `value` is a dense view of all elements of a buffer in their order."""
    while (op := linalg.maker(value)) is not None and op.name in WHOLE_VIEWS:
        value = op.operands[0]
    return value == base(value) and isinstance(ir.MemRefType(value.type).layout, ir.AffineMapAttr)


def _long(kind: ir.MemRefType, first: int) -> int:
    """The number of dimensions from `first` on that are not of size 1."""
    return sum(_size(kind, n) != 1 for n in range(first, kind.rank))


def _first_dims(kind: ir.MemRefType, rows: Rows) -> int | None:
    """The number of first dimensions of a view of a buffer that count its rows; None if no number of them does."""
    every = range(kind.rank + 1)
    if rows.count is None:
        return next((n for n in every if _long(kind, n) == rows.inside), None)
    return next((n for n in every if kind.has_static_shape and math.prod(kind.shape[:n]) == rows.count), None)


def rows_of(value: ir.Value, places: Sequence[Linear], dims: list[int]) -> Rows | None:
    """The rows of a buffer that an operation writes through a view; None if it does not write it row by row."""
    memref_type, left, count = ir.MemRefType(value.type), list(dims), 0
    while left and count < memref_type.rank:
        if _size(memref_type, count) != 1 and places[count] != ({left.pop(0): 1}, 0):
            return None
        count += 1
    inside = {d for coefficients, _ in places[count:] for d in coefficients}
    if left or not _is_whole(value) or not inside.isdisjoint(dims):
        return None
    known = memref_type.has_static_shape
    return Rows(math.prod(memref_type.shape[:count]) if known else None, _long(memref_type, count))


def dims_of(value: ir.Value, places: Sequence[Linear], rows: Rows | None) -> list[int] | None:
    """The dimensions of an operation that count the rows of a buffer, which it reads or writes at `places` of a view.

    None if they do not do so in their order.
    """
    memref_type = ir.MemRefType(value.type)
    count = None if rows is None or not _has_whole_rows(value, rows) else _first_dims(memref_type, rows)
    if count is None:
        return None
    dims: list[int] = []
    for n, (coefficients, start) in enumerate(places[:count]):
        if _size(memref_type, n) == 1:
            continue
        if list(coefficients.values()) != [1] or start != 0:
            return None
        dims += coefficients
    inside = {d for coefficients, _ in places[count:] for d in coefficients}
    return dims if inside.isdisjoint(dims) else None
