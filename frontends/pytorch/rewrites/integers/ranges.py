"""Sequences of integers, also between numbers that are none."""

from __future__ import annotations

import math
from typing import Any

import torch

from numc.frontends.pytorch.rewrites.scalars import INTEGERS

aten = torch.ops.aten


def arange(start: Any, end: Any, step: Any = 1, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    """aten.arange of integers from floats. Eager torch cuts off the start and the step, and for int64 the end, too."""
    of_floats = any(isinstance(each, float) for each in (start, end, step))
    if dtype not in INTEGERS or (not of_floats and dtype != torch.int8):
        return NotImplemented
    if of_floats:
        if dtype == torch.int64:
            start, end, step = int(start), int(end), int(step)
        count = max(0, math.ceil((end - start) / step))
        start, step = int(start), int(step)
        end = start + count * step
    if dtype == torch.int8:  # on which torch-mlir crashes
        return aten.arange.start_step(start, end, step, dtype=torch.int16).to(dtype)
    return aten.arange.start_step(start, end, step, dtype=dtype)


def linspace(start: Any, end: Any, steps: int, *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    """aten.linspace of integers between floats, which eager torch cuts off first."""
    if dtype not in INTEGERS or not any(isinstance(each, float) for each in (start, end)):
        return NotImplemented
    return torch.linspace(int(start), int(end), steps, dtype=dtype)
