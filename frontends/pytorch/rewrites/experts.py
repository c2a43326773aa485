"""Products of groups of rows, as of the experts of a network: a run finds how many rows each has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from numc.frontends.pytorch.operators import grouped_mm

aten = torch.ops.aten


def products() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions by operation, also of those that transformers has registered if it is imported."""
    table: dict[Any, Callable[..., Any]] = {aten._grouped_mm.default: _grouped_mm}
    others = torch.ops.transformers
    if hasattr(others, "grouped_mm_fallback"):
        table[others.grouped_mm_fallback.default] = grouped_mm
    if hasattr(others, "grouped_mm_fallback_backward"):
        table[others.grouped_mm_fallback_backward.default] = _backward
    return table


def _grouped_mm(
    left: torch.Tensor,
    right: torch.Tensor,
    ends: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """aten._grouped_mm, whose ranks say what the groups are."""
    if bias is not None or out_dtype not in (None, left.dtype):
        return NotImplemented
    return torch.bmm(left, right) if ends is None else grouped_mm(left, right, ends)


def _backward(
    rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor, gradient: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of rows and matrices."""
    return grouped_mm(gradient, matrices.transpose(1, 2), ends), grouped_mm(rows.t(), gradient, ends)
