"""Normalization across channels, which torch writes into storages of tensors, where no graph can follow it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import torch
from torch.nn.modules import normalization

from numc.support.replaced import replaced


def across_channels() -> contextlib.AbstractContextManager[None]:
    """Let torch.nn.CrossMapLRN2d be traced as operations on tensors."""
    return replaced(normalization, _cross_map_lrn2d=SimpleNamespace(apply=_normalized))  # type: ignore[arg-type]


def _normalized(value: torch.Tensor, size: int, alpha: float, beta: float, k: float) -> torch.Tensor:
    """Divide by a power of the squares around each channel; of an even size, torch takes one channel less.

    torch adds and subtracts in one running sum, in which a NaN stays, and never takes out the first channel.
    """
    reach = int((size - 1) / 2)
    squares = value * value
    number = torch.arange(value.shape[1])
    added = squares.cumsum(1).index_select(1, (number + reach).clamp(max=value.shape[1] - 1))
    later = torch.where((number > 0).reshape([-1, 1, 1]), squares, 0.0)
    total = added - later.cumsum(1).index_select(1, (number - reach - 1).clamp(min=0))
    return value * (k + alpha / size * total) ** -beta
