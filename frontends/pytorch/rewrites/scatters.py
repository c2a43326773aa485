"""Scattered writes: conversion of all of them to one form, numc's operator put_along.

It writes or adds slices along one dimension in their order. So the bits do not depend on the number of threads,
additions are rounded like those of any other operation, and of several writes to one place the last one stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_or_false

from numc.frontends.pytorch.operators import ADD, LARGEST, MULTIPLY, SMALLEST, WRITE, put_along

aten = torch.ops.aten
Place = tuple[int, torch.Tensor]
"""A dimension, and indices in it."""


def index_put(
    value: torch.Tensor, indices: Sequence[torch.Tensor | None], new: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """aten.index_put, as writes along one dimension, or where a mask says so."""
    indexed = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for _, i in indexed):
        if len(indexed) > 1:
            return NotImplemented
        return _put_masked(value, indexed[0][0], indexed[0][1].bool(), new, accumulate)
    return _put(value, _from_start(value, indexed), new, ADD if accumulate else WRITE)


def _from_start(value: torch.Tensor, given: Sequence[Place]) -> list[Place]:
    """Return places of which the negative ones, which count from the end of their dimension, count from its start."""
    return [(d, torch.where(i < 0, i.long() + value.shape[d], i.long())) for d, i in given]


def in_range(index: torch.Tensor, size: int) -> torch.Tensor:
    """Return indices which a run reads, so that one that is not from 0 to `size` - 1 ends it."""
    return torch.arange(size).index_select(0, index.long().reshape([-1])).reshape(index.shape)


def _put(value: torch.Tensor, given: Sequence[Place], new: torch.Tensor, how: int) -> torch.Tensor:
    """Write or combine `new` at places; given: the dimensions of `value` and the indices in them."""
    if guard_or_false(value.numel() == 0) or guard_or_false(new.numel() == 0):
        return NotImplemented
    dims = [d for d, _ in given]
    first, last = dims[0], dims[-1] + 1
    if len(dims) != last - first:  # not adjacent: then the dimensions of the indices come first in the values
        order = [*dims, *(d for d in range(value.dim()) if d not in dims)]
        written = _put(value.permute(order), [(n, i) for n, (_, i) in enumerate(given)], new, how)
        return written.permute([order.index(d) for d in range(value.dim())])
    if len(given) == 1 and given[0][1].dim() == 1:  # without reshapes, so that a cache can be written in place
        sizes = [*value.shape[:first], given[0][1].shape[0], *value.shape[last:]]
        return put_along(value, first, given[0][1].long(), new.expand(sizes), how)
    places = torch.broadcast_tensors(*(i.long() for _, i in given))
    before, sizes, after = value.shape[:first], value.shape[first:last], value.shape[last:]
    new = new.expand([*before, *places[0].shape, *after]).reshape([*before, -1, *after])
    written = put_along(value.reshape([*before, -1, *after]), first, _row(places, sizes), new, how)
    return written.reshape(value.shape)


def _put_masked(
    value: torch.Tensor, first: int, mask: torch.Tensor, new: torch.Tensor, accumulate: bool
) -> torch.Tensor:
    """Write or add `new` where a mask of the dimensions from `first` on is true.

    It has a row for each such place, in their order, or one for all.
    """
    after = value.dim() - first - mask.dim()
    rows = new.shape[new.dim() - 1 - after] if new.dim() > after else 1
    wide = mask.reshape([*mask.shape, *[1] * after])
    if guard_or_false(rows == 1):  # of a size that depends on data, the other way is right for one row, too
        lead = new.shape[: max(0, new.dim() - 1 - after)]
        spread = new.reshape([*lead, *[1] * mask.dim(), *new.shape[len(new.shape) - min(after, new.dim()) :]])
    else:
        number, at = mask.reshape([-1]).long().cumsum(0) - 1, new.dim() - 1 - after
        if free_unbacked_symbols(rows):  # there may be none
            new = torch.cat([new, new.new_zeros([1 if d == at else size for d, size in enumerate(new.shape)])], at)
        spread = new.index_select(at, number.clamp(min=0))
        spread = spread.reshape([*new.shape[:at], *mask.shape, *new.shape[at + 1 :]])
    return torch.where(wide, value + spread if accumulate else spread, value)


def masked_scatter(value: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """aten.masked_scatter: the elements of `source` in their order where the mask is true."""
    shape = torch.broadcast_shapes(value.shape, mask.shape)
    wide, elements = mask.expand(shape).reshape([-1]), source.reshape([-1])
    if free_unbacked_symbols(elements.shape[0]):  # there may be none
        elements = torch.cat([elements, elements.new_zeros([1])])
    spread = elements.index_select(0, (wide.long().cumsum(0) - 1).clamp(min=0))
    return torch.where(wide, spread, value.expand(shape).reshape([-1])).reshape(shape)


def index(value: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """aten.index by several adjacent tensors, as an index by one; torch-mlir needs fixed sizes for several."""
    indexed = [(d, i) for d, i in enumerate(indices) if i is not None]
    dims = [d for d, _ in indexed]
    first, last = dims[0], dims[-1] + 1
    if any(i.dtype in (torch.bool, torch.uint8) for _, i in indexed):
        return NotImplemented
    if any(i.dtype != torch.int64 for _, i in indexed):
        return aten.index(value, [i if i is None else i.long() for i in indices])
    if len(dims) < 2 or len(dims) != last - first:
        return NotImplemented
    if _is_outer([i for _, i in indexed]):
        for (dim, places), size in zip(indexed, value.shape[first:last], strict=True):
            value = value.index_select(dim, torch.where(places < 0, places + size, places).reshape([-1]))
        return value
    places = torch.broadcast_tensors(*(i for _, i in _from_start(value, indexed)))
    before, sizes, after = value.shape[:first], value.shape[first:last], value.shape[last:]
    gathered = value.reshape([*before, math.prod(sizes), *after]).index_select(first, _row(places, sizes))
    return gathered.reshape([*before, *places[0].shape, *after])


def _is_outer(indices: Sequence[torch.Tensor]) -> bool:
    """Whether each index has a dimension of its own, in order: rows are chosen, and then columns."""
    rank = len(indices)
    return max(i.dim() for i in indices) == rank and all(
        all(size == 1 for d, size in enumerate(i.shape) if d + rank - i.dim() != n) for n, i in enumerate(indices)
    )


def _row(places: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    """Return the number of a row from its indices; it is out of range if one index is."""
    if len(places) == 1:
        return places[0].reshape([-1])
    total = None
    right = None
    for coordinate, size in zip(places, sizes, strict=True):
        inside = (coordinate >= 0) & (coordinate < size)
        total = coordinate if total is None else total * size + coordinate
        right = inside if right is None else right & inside
    assert total is not None
    assert right is not None
    return torch.where(right, total, math.prod(sizes)).reshape([-1])


def _along(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, how: int) -> torch.Tensor:
    """Write or combine every element of `new` at its own position, with its value in `index` as coordinate `dim`.

    `new` is at least as large as `index`.
    """
    if value.dim() == 0:
        return _along(value.reshape([1]), 0, index.reshape([-1]), new.reshape([-1]), how).reshape([])
    if index.dim() == 0:
        index, new = index.reshape([1]), new.reshape([1])
    dim %= value.dim()
    new = new[tuple(slice(n) for n in index.shape)]
    places = []
    for d, size in enumerate(index.shape):
        shape = [1] * index.dim()
        shape[d] = size
        places.append((d, index if d == dim else torch.arange(size).reshape(shape)))
    return _put(value, places, new, how)


def scatter(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """aten.scatter.src."""
    return _along(value, dim, index, new, WRITE)


def scatter_value(value: torch.Tensor, dim: int, index: torch.Tensor, number: Any) -> torch.Tensor:
    """aten.scatter.value."""
    return _along(value, dim, index, torch.full(index.shape, number, dtype=value.dtype), WRITE)


def scatter_add(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """aten.scatter_add."""
    return _along(value, dim, index, new, ADD)


def scatter_reduce(
    value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """aten.scatter_reduce."""
    return _reduced(_along, value, dim, index=index, new=new, reduce=reduce, include_self=include_self)


def index_reduce(
    value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """aten.index_reduce, of slices along `dim`."""
    return _reduced(_rows, value, dim, index=index, new=new, reduce=reduce, include_self=include_self)


def index_add(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    """aten.index_add, of slices along `dim`."""
    return _rows(value, dim, index, new if alpha == 1 else new * alpha, ADD)


def index_copy(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """aten.index_copy, of slices along `dim`."""
    return _rows(value, dim, index, new, WRITE)


def index_fill(value: torch.Tensor, dim: int, index: torch.Tensor, number: Any) -> torch.Tensor:
    """aten.index_fill, of slices along `dim`."""
    if value.dim() == 0:
        return index_fill(value.reshape([1]), 0, index, number).reshape([])
    dim, index = dim % value.dim(), index.reshape([-1])
    sizes = [index.shape[0] if d == dim else size for d, size in enumerate(value.shape)]
    new = number.to(value.dtype) if isinstance(number, torch.Tensor) else torch.full((), number, dtype=value.dtype)
    return _put(value, _from_start(value, [(dim, index)]), new.expand(sizes), WRITE)


def _rows(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, how: int) -> torch.Tensor:
    if value.dim() == 0:
        return _rows(value.reshape([1]), 0, index, new.reshape([-1]), how).reshape([])
    return _put(value, [(dim % value.dim(), index.reshape([-1]))], new, how)


_REDUCTIONS = {"sum": ADD, "mean": ADD, "prod": MULTIPLY, "amax": LARGEST, "amin": SMALLEST}


def _reduced(
    put: Callable[..., torch.Tensor],
    value: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    new: torch.Tensor,
    reduce: str,
    include_self: bool,
) -> torch.Tensor:
    """Combine with `put`; without the values that were there before if include_self is False."""
    if value.dtype == torch.bool or reduce not in _REDUCTIONS or value.numel() == 0 or index.numel() == 0:
        return NotImplemented
    start = value
    if not include_self:
        start = put(value, dim, index, torch.full_like(new, _neutral(reduce, value.dtype)), WRITE)
    combined = put(start, dim, index, new, _REDUCTIONS[reduce])
    if reduce != "mean":
        return combined
    ones = torch.ones_like(value)
    if not include_self:
        ones = put(ones, dim, index, torch.zeros_like(new), WRITE)
    count = put(ones, dim, index, torch.ones_like(new), ADD)
    return combined / count if value.is_floating_point() else combined.div(count, rounding_mode="floor")


def _neutral(reduce: str, dtype: torch.dtype) -> Any:
    """Return the number with which a reduction changes nothing."""
    if reduce in ("amax", "amin"):
        if dtype.is_floating_point:
            return float("-inf") if reduce == "amax" else float("inf")
        return torch.iinfo(dtype).min if reduce == "amax" else torch.iinfo(dtype).max
    return 1 if reduce == "prod" else 0


def put(value: torch.Tensor, index: torch.Tensor, new: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    """aten.put."""
    rows = aten.index_put(value.reshape([-1, 1]), [index.reshape([-1])], new.reshape([-1, 1]), accumulate)
    return rows.reshape(value.shape)
