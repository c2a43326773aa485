"""Sums, averages and maxima of the rows of tables."""

from __future__ import annotations

from typing import Any

import torch

from numc.frontends.pytorch.operators import ADD, LARGEST, put_along


def embedding_bag(
    table: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """aten._embedding_bag of sums (mode 0) and averages (1), and aten._embedding_bag_forward_only also of maxima (2).

    torch-mlir leaves out the weights and the rows at padding_idx.
    """
    indices, offsets = indices.long(), offsets.long()
    bags = offsets.shape[0] - int(include_last_offset)
    place = torch.arange(indices.shape[0])
    bag = (place.unsqueeze(-1) >= offsets[:bags]).sum(-1) - 1
    kept = indices != padding_idx
    counts = put_along(torch.zeros(bags, dtype=torch.int64), 0, bag, kept.long(), ADD)
    rows = table.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    start = torch.zeros([bags, table.shape[1]], dtype=table.dtype)
    some, most = kept.unsqueeze(-1), counts.unsqueeze(-1)
    if mode == 2:
        found = put_along(start - float("inf"), 0, bag, torch.where(some, rows, float("-inf")), LARGEST)
        found = torch.where(most == 0, 0.0, found)
    else:
        found = put_along(start, 0, bag, torch.where(some, rows, 0.0), ADD)
        found = found / most.clamp(min=1) if mode == 1 else found
    return found, bag, counts, torch.zeros_like(offsets)
