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
    variance = torch.ops.prims.var(value, dims, less)
    # The sign, also that of a zero, is that of the divisor.
    variance = torch.where(variance.signbit(), variance.abs() / 0.0, variance)
    for d in dims if keepdim else ():
        variance = variance.unsqueeze(d)
    return variance


def std(value: torch.Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> torch.Tensor:
    """aten.std.correction, in the same case."""
    variance = var(value, dim, correction=correction, keepdim=keepdim)
    return variance if variance is NotImplemented else variance.sqrt()


_FAR, _FACTOR = 2.0**40, 2.0**90


def std_in_float32(value: torch.Tensor, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """aten.std.correction by a variance of float32, which of large and of small numbers has no place there.

    These are multiplied by a power of two before, and their deviation is divided by it.
    """
    if not all(isinstance(n, int) and n > 0 for n in value.shape):
        return std(value, dim, correction=correction, keepdim=keepdim)
    dims = list(dim) if dim else list(range(value.dim()))
    most = value.abs().amax(dims, keepdim=True)
    factor = torch.where(most > _FAR, 1 / _FACTOR, torch.where(most < 1 / _FAR, _FACTOR, 1.0))
    result = torch.ops.aten.var.correction(value * factor, dims, correction=correction, keepdim=True).sqrt() / factor
    return result if keepdim else result.squeeze(dims)


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
    variance = var(value, dim, correction=correction, keepdim=keepdim)
    dims = list(dim) if dim else list(range(value.dim()))
    return NotImplemented if variance is NotImplemented else (variance, value.mean(dims, keepdim=keepdim))
