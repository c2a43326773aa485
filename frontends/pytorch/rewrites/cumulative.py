"""Cumulative maxima and sums of exponentials as reductions of all beginnings, which are elementwise operations."""

from __future__ import annotations

from typing import Any

import torch

from numc.frontends.pytorch.rewrites.orders import LARGEST

aten = torch.ops.aten


def cummax(value: torch.Tensor, dim: int) -> Any:
    """aten.cummax; of equal elements the last one counts."""
    return _extreme(value, dim, torch.finfo if value.is_floating_point() else torch.iinfo, largest=True)


def cummin(value: torch.Tensor, dim: int) -> Any:
    """aten.cummin; of equal elements the last one counts."""
    return _extreme(value, dim, torch.finfo if value.is_floating_point() else torch.iinfo, largest=False)


def logcumsumexp(value: torch.Tensor, dim: int) -> torch.Tensor:
    """aten.logcumsumexp, in which the exponentials do not overflow."""
    if value.dim() == 0:
        return value.clone()
    pairs, before = _beginnings(value, dim)
    if pairs is None:
        return NotImplemented
    kept = torch.where(before, pairs, float("-inf"))
    most = kept.amax(-1, keepdim=True)
    most = torch.where(most.abs() == float("inf"), 0.0, most)
    log_sums = (kept - most).exp().sum(-1).log() + most.squeeze(-1)
    return log_sums.transpose(dim, -1).contiguous()


def cumsum(value: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """aten.cumsum of a single element, or in another dtype."""
    return _simpler(aten.cumsum.default, value, dim, dtype)


def cumprod(value: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """aten.cumprod of a single element, or in another dtype."""
    return _simpler(aten.cumprod.default, value, dim, dtype)


def _simpler(operation: Any, value: torch.Tensor, dim: int, dtype: torch.dtype | None) -> Any:
    if value.dim() == 0:
        return value.to(dtype or (value.dtype if value.is_floating_point() else torch.int64), copy=True)
    return NotImplemented if dtype is None else operation(value.to(dtype), dim).to(dtype)  # of integers it is int64


def _beginnings(value: torch.Tensor, dim: int) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return the elements along `dim` with a new dimension before them, and which of them belong to its elements."""
    moved = value.transpose(dim, -1)
    size = moved.shape[-1]
    places = torch.arange(size)
    small = not isinstance(size, int) or size <= LARGEST
    return moved.unsqueeze(-2) if small else None, places <= places.unsqueeze(-1)


def _extreme(value: torch.Tensor, dim: int, limits: Any, largest: bool) -> Any:
    if value.dtype == torch.bool:
        extremes, index = _extreme(value.to(torch.int8), dim, torch.iinfo, largest)
        return extremes.bool(), index
    if value.dim() == 0:
        return value.clone(), torch.zeros_like(value, dtype=torch.int64)
    pairs, before = _beginnings(value, dim)
    if pairs is None:
        return NotImplemented
    worst = limits(value.dtype).min if largest else limits(value.dtype).max
    if value.is_floating_point():
        worst = float("-inf") if largest else float("inf")
    kept = torch.where(before, pairs, worst)
    extremes = kept.amax(-1) if largest else kept.amin(-1)
    hit = pairs == extremes.unsqueeze(-1)
    if value.is_floating_point():
        hit = hit | (pairs.isnan() & extremes.isnan().unsqueeze(-1))
    index = torch.where(hit & before, torch.arange(value.shape[dim]), -1).amax(-1)
    return extremes.transpose(dim, -1).contiguous(), index.transpose(dim, -1).contiguous()
