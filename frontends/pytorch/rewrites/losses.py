"""Losses that torch's own decompositions compute otherwise than eager torch."""

from __future__ import annotations

from typing import Any

import torch

_MEAN, _SUM = 1, 2  # reductions


def multilabel_margin_loss_forward(
    value: torch.Tensor, target: torch.Tensor, reduction: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.multilabel_margin_loss_forward; torch's decomposition counts class 0 for each place from the first -1 on."""
    rows, targets = torch.atleast_2d(value), torch.atleast_2d(target)
    valid = (targets == -1).cumsum(1) == 0
    places = torch.where(valid, targets, 0)
    classes = torch.arange(rows.shape[1], device=value.device)
    wanted = ((places.unsqueeze(2) == classes) & valid.unsqueeze(2)).any(1)
    margins = 1 - rows.gather(1, places).unsqueeze(2) + rows.unsqueeze(1)  # by example, given class and any class
    counted = valid.unsqueeze(2) & ~wanted.unsqueeze(1) & (margins > 0)
    loss = torch.where(counted, margins, 0).sum((1, 2)) / rows.shape[1]
    if reduction in (_MEAN, _SUM):
        loss = loss.mean() if reduction == _MEAN else loss.sum()
    else:
        loss = loss.reshape(value.shape[:-1])
    return loss, wanted.to(value.dtype).reshape(target.shape)


def multi_margin_loss(
    value: torch.Tensor,
    target: torch.Tensor,
    p: Any = 1,
    margin: Any = 1,
    weight: torch.Tensor | None = None,
    reduction: int = _MEAN,
) -> torch.Tensor:
    """aten.multi_margin_loss; that of torch has a gradient where a margin is just kept, and sums NaN."""
    rows, targets = torch.atleast_2d(value), torch.atleast_1d(target)
    margins = margin - rows.gather(1, targets.unsqueeze(1)) + rows
    powers = margins if p == 1 else margins * margins
    powers = powers if weight is None else powers * weight[targets].unsqueeze(1)
    counted = (torch.arange(rows.shape[1], device=value.device) != targets.unsqueeze(1)) & (margins > 0)
    losses = torch.where(counted, powers, 0).sum(1) / rows.shape[1]
    if reduction in (_MEAN, _SUM):
        return losses.mean() if reduction == _MEAN else losses.sum()
    return losses.reshape(target.shape)
