"""Variances of no more numbers than are subtracted from their count, which torch-mlir divides by a negative number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

Dims = Sequence[int] | None


def var(value: torch.Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> torch.Tensor:
    """aten.var.correction, which divides by zero then, as eager torch does.

    A free size may have any value in a run, also one that torch excludes when it traces a model.
    """
    less = 1 if correction is None else correction
    dims = sorted(d % value.dim() for d in dim or range(value.dim()))
    count = math.prod(value.shape[d] for d in dims)
    if less <= 0 or (isinstance(count, int) and less <= count):
        return NotImplemented
    found = torch.ops.prims.var(value, dims, less)
    # The sign, also that of a zero, is that of the divisor.
    found = torch.where(found.signbit(), found.abs() / 0.0, found)
    for d in dims if keepdim else ():
        found = found.unsqueeze(d)
    return found


def std(value: torch.Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> torch.Tensor:
    """aten.std.correction, in the same case."""
    found = var(value, dim, correction=correction, keepdim=keepdim)
    return found if found is NotImplemented else found.sqrt()


def std_in_double(value: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    """aten.std.correction of float32 in float64, as torch-mlir's variance is, whose rounded value may overflow."""
    if value.dtype == torch.float64:
        return std(value, *args, **options)
    return torch.ops.aten.std.correction(value.double(), *args, **options).to(value.dtype)


def std_mean(value: torch.Tensor, *args: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.std_mean.correction."""
    aten = torch.ops.aten
    return aten.std.correction(value, *args, **options), aten.var_mean.correction(value, *args, **options)[1]


def var_mean(
    value: torch.Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.var_mean.correction, in the same case."""
    found = var(value, dim, correction=correction, keepdim=keepdim)
    dims = list(dim) if dim else list(range(value.dim()))
    return NotImplemented if found is NotImplemented else (found, value.mean(dims, keepdim=keepdim))
