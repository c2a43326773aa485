"""Scattered writes: conversion of all of them to one form, numc's operator put_along.

It writes or adds slices along one dimension in their order. So the bits do not depend on the number of threads,
additions are rounded like those of any other operation, and of several writes to one place the last one stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from numc.frontends.pytorch.operators import put_along

aten = torch.ops.aten


def index_put(
    value: torch.Tensor, indices: Sequence[torch.Tensor | None], new: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """aten.index_put, as writes along one dimension.

    A mask is converted only if it writes a single number.
    """
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for _, i in given):
        if accumulate or new.numel() != 1 or len(indices) != 1:
            return NotImplemented
        mask = given[0][1]
        mask = mask.bool().reshape([*mask.shape, *[1] * (value.dim() - mask.dim())])
        return torch.where(mask, new.reshape([]), value)
    if value.numel() == 0 or new.numel() == 0:
        return NotImplemented
    dims = [d for d, _ in given]
    first, last = dims[0], dims[-1] + 1
    if len(dims) != last - first:  # not adjacent: then the dimensions of the indices come first in the values
        order = [*dims, *(d for d in range(value.dim()) if d not in dims)]
        found = aten.index_put(value.permute(order), [i for _, i in given], new, accumulate)
        return found.permute([order.index(d) for d in range(value.dim())])
    if len(given) == 1 and given[0][1].dim() == 1:  # without reshapes, so that a cache can be written in place
        sizes = [*value.shape[:first], given[0][1].shape[0], *value.shape[last:]]
        return put_along(value, first, given[0][1].long(), new.expand(sizes), accumulate)
    places = torch.broadcast_tensors(*(i.long() for _, i in given))
    before, sizes, after = value.shape[:first], value.shape[first:last], value.shape[last:]
    new = new.expand([*before, *places[0].shape, *after]).reshape([*before, -1, *after])
    found = put_along(value.reshape([*before, -1, *after]), first, _row(places, sizes), new, accumulate)
    return found.reshape(value.shape)


def index(value: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """aten.index by several adjacent tensors, as an index by one; torch-mlir needs fixed sizes for several."""
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    dims = [d for d, _ in given]
    first, last = dims[0], dims[-1] + 1
    if len(dims) < 2 or len(dims) != last - first or any(i.dtype in (torch.bool, torch.uint8) for _, i in given):
        return NotImplemented
    places = torch.broadcast_tensors(*(i.long() for _, i in given))
    before, sizes, after = value.shape[:first], value.shape[first:last], value.shape[last:]
    found = value.reshape([*before, -1, *after]).index_select(first, _row(places, sizes))
    return found.reshape([*before, *places[0].shape, *after])


def _row(places: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    """Return the number of a row from its indices, which may be negative; it is out of range if one index is."""
    if len(places) == 1:
        return places[0].reshape([-1])
    total = None
    right = None
    for place, size in zip(places, sizes, strict=True):
        here = torch.where(place < 0, place + size, place)
        inside = (here >= 0) & (here < size)
        total = here if total is None else total * size + here
        right = inside if right is None else right & inside
    assert total is not None
    assert right is not None
    return torch.where(right, total, math.prod(sizes)).reshape([-1])


def _along(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """Write every element of `new` at its own position, with its value in `index` as coordinate `dim`.

    `index` and `new` have the same shape.
    """
    if value.dim() == 0:
        return _along(value.reshape([1]), 0, index.reshape([-1]), new.reshape([-1]), accumulate).reshape([])
    dim %= value.dim()
    new = new[tuple(slice(n) for n in index.shape)]
    places = []
    for d, size in enumerate(index.shape):
        shape = [1] * index.dim()
        shape[d] = size
        places.append(index if d == dim else torch.arange(size).reshape(shape))
    return index_put(value, places, new, accumulate)


def scatter(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """aten.scatter.src."""
    return _along(value, dim, index, new, accumulate=False)


def scatter_value(value: torch.Tensor, dim: int, index: torch.Tensor, number: Any) -> torch.Tensor:
    """aten.scatter.value."""
    return _along(value, dim, index, torch.full(index.shape, number, dtype=value.dtype), accumulate=False)


def scatter_add(value: torch.Tensor, dim: int, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """aten.scatter_add."""
    return _along(value, dim, index, new, accumulate=True)


def put(value: torch.Tensor, index: torch.Tensor, new: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    """aten.put."""
    rows = aten.index_put(value.reshape([-1, 1]), [index.reshape([-1])], new.reshape([-1, 1]), accumulate)
    return rows.reshape(value.shape)
