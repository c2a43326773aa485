"""Largest and smallest elements, and where they are: NaN comes before all others, as in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def maximum(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten.maximum."""
    if not torch.result_type(one, other).is_floating_point:
        return NotImplemented
    return torch.where((one > other) | one.isnan(), one, other)


def minimum(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten.minimum."""
    if not torch.result_type(one, other).is_floating_point:
        return NotImplemented
    return torch.where((one < other) | one.isnan(), one, other)


def clamp(value: torch.Tensor, min: Any = None, max: Any = None) -> torch.Tensor:
    """aten.clamp of integers and of bool to limits of another type."""
    if not value.is_floating_point() and any(isinstance(limit, float) for limit in (min, max)):
        return aten.clamp.default(value.to(torch.get_default_dtype()), min, max)
    return aten.clamp.default(value.to(torch.int64), min, max) if value.dtype == torch.bool else NotImplemented


def clamp_to(value: torch.Tensor, min: torch.Tensor | None = None, max: torch.Tensor | None = None) -> torch.Tensor:
    """aten.clamp, aten.clamp_min and aten.clamp_max with limits that are tensors."""
    value = value if min is None else aten.maximum.default(value, min)
    return value if max is None else aten.minimum.default(value, max)


def clamp_below(value: torch.Tensor, max: torch.Tensor) -> torch.Tensor:
    """aten.clamp_max with a limit that is a tensor."""
    return clamp_to(value, None, max)


def max_dim(value: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """aten.max.dim."""
    return _along(aten.amax, value, dim, keepdim)


def min_dim(value: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """aten.min.dim."""
    return _along(aten.amin, value, dim, keepdim)


def argmax(value: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """aten.argmax."""
    return _place(aten.amax, value, dim, keepdim)


def argmin(value: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """aten.argmin."""
    return _place(aten.amin, value, dim, keepdim)


def _along(extreme: Callable[..., torch.Tensor], value: torch.Tensor, dim: int, keepdim: bool) -> Any:
    if value.dim() == 0:
        return value.clone(), torch.zeros_like(value, dtype=torch.int64)
    if not value.is_floating_point():
        return NotImplemented
    extremes = extreme(value, [dim], True)
    index = _hit(value, extremes).argmax(dim, True)
    return (extremes, index) if keepdim else (extremes.squeeze(dim), index.squeeze(dim))


def _place(extreme: Callable[..., torch.Tensor], value: torch.Tensor, dim: int | None, keepdim: bool) -> Any:
    if value.dim() == 0:
        return torch.zeros_like(value, dtype=torch.int64)
    if not value.is_floating_point():
        return NotImplemented
    extremes = extreme(value, list(range(value.dim())) if dim is None else [dim], True)
    return _hit(value, extremes).argmax(dim, keepdim)


def _hit(value: torch.Tensor, extreme: torch.Tensor) -> torch.Tensor:
    return ((value == extreme) | value.isnan()).int()


def of_single(value: torch.Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
    """aten.amax or aten.amin of a single element."""
    return value.clone() if value.dim() == 0 else NotImplemented


def any_dims(value: torch.Tensor, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
    """aten.any of numbers, and along several dimensions."""
    return _over(aten.any, value, dim, keepdim)


def all_dims(value: torch.Tensor, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
    """aten.all of numbers, and along several dimensions."""
    return _over(aten.all, value, dim, keepdim)


def _over(operation: Any, value: torch.Tensor, dim: Any, keepdim: bool) -> torch.Tensor:
    if value.dtype == torch.bool and not isinstance(dim, (list, tuple)):
        return NotImplemented
    truth = value if value.dtype == torch.bool else value != 0
    if dim is None and not keepdim:
        truth = operation(truth)
    else:
        dims = range(value.dim()) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
        for d in sorted((d % max(1, value.dim()) for d in dims), reverse=True):
            truth = operation(truth, d, keepdim)
    return truth.to(torch.uint8) if value.dtype == torch.uint8 else truth
