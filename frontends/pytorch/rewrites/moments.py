"""Variances of no more numbers than are subtracted from their count, which torch-mlir divides by a negative number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def var(
    value: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> torch.Tensor:
    """aten.var.correction: divides by zero then, as eager torch does."""
    dims = dim if dim else range(value.dim())
    sizes = [value.shape[d] for d in dims]
    less = 1 if correction is None else correction
    if any(isinstance(size, torch.SymInt) for size in sizes) or math.prod(sizes) > less:
        return NotImplemented
    distance = value - value.mean(list(dims), keepdim=True)
    return (distance * distance).sum(list(dims), keepdim=keepdim) / 0.0


def std(
    value: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> torch.Tensor:
    """aten.std.correction, in the same case."""
    found = var(value, dim, correction=correction, keepdim=keepdim)
    return found if found is NotImplemented else found.sqrt()


def var_mean(
    value: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.var_mean.correction, in the same case."""
    found = var(value, dim, correction=correction, keepdim=keepdim)
    dims = list(dim) if dim else list(range(value.dim()))
    return NotImplemented if found is NotImplemented else (found, value.mean(dims, keepdim=keepdim))
