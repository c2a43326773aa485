"""Products of matrices of integers, whose factors eager torch cuts off to integers."""

from __future__ import annotations

from typing import Any

import torch

from numc.frontends.pytorch.rewrites.scalars import INTEGERS


def addmv(value: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """aten.addmv."""
    return _added(value, matrix.mv(vector), beta, alpha)


def addbmm(value: torch.Tensor, one: torch.Tensor, other: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """aten.addbmm of integers."""
    if value.dtype not in INTEGERS:
        return NotImplemented
    return _added(value, one.bmm(other).sum(0, dtype=value.dtype), beta, alpha)


def _added(value: torch.Tensor, product: torch.Tensor, beta: Any, alpha: Any) -> torch.Tensor:
    if product.dtype in INTEGERS:
        beta, alpha = int(beta), int(alpha)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (value if beta == 1 else value * beta)
