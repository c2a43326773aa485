"""Sorting and counting as comparisons of all pairs, which are elementwise operations and sums.

torch-mlir sorts by a loop over neighbours on one thread, which takes as many comparisons and does not know NaN.
"""

from __future__ import annotations

from typing import Any

import torch

LARGEST = 4096
"""Of more elements, comparisons of all pairs take too long."""


def topk(value: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """aten.topk; of equal elements the first comes first."""
    return _first(value, k, dim, descending=largest)


def sort(value: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    """aten.sort, which is stable."""
    return _first(value, value.shape[dim] if value.dim() else 1, dim, descending)


def sort_stable(value: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """aten.sort.stable."""
    return sort(value, dim, descending)


def histc(value: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """aten.histc between given limits."""
    if min >= max:
        return NotImplemented
    edges = torch.linspace(min, max, bins + 1, dtype=value.dtype)
    each = value.reshape([-1, 1])
    below = torch.cat([each < edges[1:-1], each <= edges[-1:]], 1)
    return ((each >= edges[:-1]) & below).sum(0).to(value.dtype)


def _first(value: torch.Tensor, count: int, dim: int, descending: bool) -> Any:
    """Return the first `count` elements along `dim` in this order, and where they were. NaN is the largest number."""
    if value.dim() == 0 or (isinstance(value.shape[dim], int) and value.shape[dim] > LARGEST):
        return NotImplemented
    moved = value.transpose(dim, -1)
    keys = moved.int() if moved.dtype == torch.bool else moved
    one, other = keys.unsqueeze(-1), keys.unsqueeze(-2)
    places = torch.arange(moved.shape[-1])
    comes_first, equal = (other > one if descending else other < one), other == one
    if value.is_floating_point():
        nan, other_nan = one.isnan(), other.isnan()
        comes_first = comes_first | (other_nan & ~nan if descending else nan & ~other_nan)
        equal = equal | (nan & other_nan)
    rank = (comes_first | (equal & (places < places.unsqueeze(-1)))).sum(-1)
    hit = rank.unsqueeze(-2) == torch.arange(count).unsqueeze(-1)
    index = torch.where(hit, places, 0).sum(-1)
    return moved.gather(-1, index).transpose(dim, -1), index.transpose(dim, -1)
