"""Sorting by integers that are in the order of the numbers; searching and counting as comparisons of all pairs."""

from __future__ import annotations

from typing import Any

import torch

from numc.frontends.pytorch.operators import bits, order
from numc.frontends.pytorch.rewrites.scalars import common

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
    """aten.histc; equal limits stand for the extremes, and equal extremes for 1 below and above."""
    if min > max or (min == max and 0 in value.shape):
        return NotImplemented
    flat = value.reshape([-1, 1])
    if min < max:
        low, high = (torch.full((), limit, dtype=value.dtype) for limit in (min, max))
    else:
        low, high = torch.aminmax(value)
        apart = (low == high).to(value.dtype)
        low, high = low - apart, high + apart
    within = (flat >= low) & (flat <= high)
    # Eager torch computes the number of the bin in the dtype of the elements, which a comparison with edges is not.
    number = (torch.where(within, flat - low, 0.0) * bins / (high - low)).long().clamp(max=bins - 1)
    return (within & (number == torch.arange(bins))).sum(0).to(value.dtype)


def _is_large(value: torch.Tensor, dim: int) -> bool:
    return isinstance(value.shape[dim], int) and value.shape[dim] > LARGEST


def _single(value: torch.Tensor) -> Any:
    return value.clone(), torch.zeros_like(value, dtype=torch.int64)


def _first(value: torch.Tensor, count: Any, dim: int, descending: bool) -> Any:
    """Return the first `count` elements along `dim` in this order, and where they were. NaN is the largest number."""
    if value.dim() == 0:
        return _single(value)
    moved = value.transpose(dim, -1)
    keys = _keys(moved)
    first = count if isinstance(count, int) else 0
    index = order(~keys if descending else keys, first)
    index = index if first else index.narrow(-1, 0, count)
    return moved.gather(-1, index).transpose(dim, -1).contiguous(), index.transpose(dim, -1).contiguous()


def _keys(value: torch.Tensor) -> torch.Tensor:
    """Return integers in the order of numbers, equal for equal ones."""
    if not value.is_floating_point():
        return value.int() if value.dtype in (torch.bool, torch.uint8) else value
    value = value if value.dtype == torch.float64 else value.float()
    # The encodings of negative numbers fall as numbers rise. There is one zero and one NaN.
    encoding = bits(torch.where(value == 0, 0.0, value))
    rising = torch.where(encoding < 0, encoding ^ torch.iinfo(encoding.dtype).max, encoding)
    return torch.where(value.isnan(), torch.iinfo(encoding.dtype).max, rising)


def kthvalue(value: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """aten.kthvalue."""
    return _one(sort(value, dim), dim, torch.full((), k - 1), keepdim)


def median(value: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """aten.median.dim: the lower of two in the middle, or the first NaN."""
    if value.dim() == 0 or not value.is_floating_point():
        return _one(sort(value, dim), dim, torch.full((), _middle(value, dim)), keepdim)
    numbers = value.shape[dim] - value.isnan().sum(dim, keepdim=True)
    position = torch.where(numbers < value.shape[dim], numbers, _middle(value, dim))
    return _one(sort(value, dim), dim, position, keepdim)


def nanmedian(value: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """aten.nanmedian.dim: the lower of two in the middle of what is not NaN."""
    if value.dim() == 0 or not value.is_floating_point():
        return median(value, dim, keepdim)
    numbers = value.shape[dim] - value.isnan().sum(dim, keepdim=True)
    return _one(sort(value, dim), dim, ((numbers - 1) // 2).clamp(min=0), keepdim)


def median_of_all(value: torch.Tensor) -> torch.Tensor:
    """aten.median: NaN if there is one, or nothing."""
    middle = nanmedian_of_all(value)
    return torch.where(value.isnan().any(), torch.nan, middle) if value.is_floating_point() else middle


def nanmedian_of_all(value: torch.Tensor) -> torch.Tensor:
    """aten.nanmedian, which of nothing is NaN, or the smallest integer."""
    flat = value.reshape([-1])
    count = flat.shape[0]
    if isinstance(count, int) and count:
        return nanmedian(flat, 0)[0]
    if flat.is_floating_point():
        return nanmedian(torch.cat([flat, flat.new_full([1], torch.nan)]), 0)[0]
    # The number that is added is sorted before all others.
    more = torch.cat([flat, flat.new_full([1], torch.iinfo(flat.dtype).min)])
    return sort(more, 0)[0].narrow(0, (count + 1) // 2, 1).squeeze(0)


def mode(value: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """aten.mode: the smallest of the most frequent values, and its last place."""
    if value.dim() == 0:
        return _single(value)
    if _is_large(value, dim):
        return NotImplemented
    if value.dtype == torch.bool:
        modes, position = mode(value.to(torch.int8), dim, keepdim)
        return modes != 0, position
    moved = value.transpose(dim, -1)
    count = (moved.unsqueeze(-1) == moved.unsqueeze(-2)).sum(-1)
    often = count == count.amax(-1, keepdim=True)
    top = float("inf") if value.is_floating_point() else torch.iinfo(value.dtype).max
    least = torch.where(often, moved, top).amin(-1, keepdim=True)
    position = torch.where(moved == least, torch.arange(moved.shape[-1]), -1).amax(-1, keepdim=True)
    modes = least.transpose(dim, -1), position.transpose(dim, -1)
    return modes if keepdim else (modes[0].squeeze(dim), modes[1].squeeze(dim))


def searchsorted(
    edges: torch.Tensor,
    value: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """aten.searchsorted, as the number of edges that come before a value; NaN comes last."""
    if sorter is not None:
        edges = edges.gather(-1, sorter)
    value = value if isinstance(value, torch.Tensor) else torch.full((), value)
    edge, number = (edges.unsqueeze(-2), value.unsqueeze(-1)) if edges.dim() > 1 else (edges, value.unsqueeze(-1))
    after = edge > number if right or side == "right" else edge >= number
    return (~after).sum(-1).to(torch.int32 if out_int32 else torch.int64)


def bucketize(value: Any, edges: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> torch.Tensor:
    """aten.bucketize."""
    return searchsorted(edges, value, out_int32=out_int32, right=right)


def isin(elements: Any, others: Any, *, assume_unique: bool = False, invert: bool = False) -> torch.Tensor:
    """aten.isin."""
    elements, others = common((elements, others)) or (elements, others)
    elements, others = (x if isinstance(x, torch.Tensor) else torch.full((), x) for x in (elements, others))
    matches = (elements.unsqueeze(-1) == others.reshape([-1])).any(-1)
    return ~matches if invert else matches


def _middle(value: torch.Tensor, dim: int) -> int:
    return (value.shape[dim] - 1) // 2 if value.dim() else 0


def _one(ordered: Any, dim: int, place: torch.Tensor, keepdim: bool) -> Any:
    """Return the values and indices of sort at a place along `dim`, which may depend on the other dimensions."""
    if ordered is NotImplemented or ordered[0].dim() == 0:
        return ordered
    shape = [1 if n == dim % ordered[0].dim() else size for n, size in enumerate(ordered[0].shape)]
    picked = [each.gather(dim, place.expand(shape)) for each in ordered]
    return tuple(each if keepdim else each.squeeze(dim) for each in picked)
