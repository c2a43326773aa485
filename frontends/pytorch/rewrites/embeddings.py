"""Sums, averages and maxima of the rows of tables, and rows that say a class."""

from __future__ import annotations

from typing import Any

import torch

from numc.frontends.pytorch.operators import ADD, LARGEST, SMALLEST, put_along
from numc.frontends.pytorch.rewrites.scatters import in_range


def one_hot(classes: torch.Tensor, count: int = -1) -> torch.Tensor:
    """aten.one_hot of a given number of classes."""
    if count == -1:
        return NotImplemented
    return (in_range(classes, count).unsqueeze(-1) == torch.arange(count)).long()


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
    """aten._embedding_bag and aten._embedding_bag_forward_only of sums (mode 0), averages (1) and maxima (2).

    torch-mlir leaves out the weights and the rows at padding_idx. The last result, for gradients of maxima, has the row
    of the table that each of them is from: the first one of equals.
    """
    indices, offsets = indices.long(), in_range(offsets, indices.shape[0] + 1)
    bags = offsets.shape[0] - int(include_last_offset)
    position = torch.arange(indices.shape[0])
    bag = (position.unsqueeze(-1) >= offsets[:bags]).sum(-1) - 1
    kept = indices != padding_idx
    counts = put_along(torch.zeros(bags, dtype=torch.int64), 0, bag, kept.long(), ADD)
    rows = table.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    start = torch.zeros([bags, table.shape[1]], dtype=table.dtype)
    some, most = kept.unsqueeze(-1), counts.unsqueeze(-1)
    if mode == 2:
        pooled = put_along(start - float("inf"), 0, bag, torch.where(some, rows, float("-inf")), LARGEST)
        is_largest, none = some & (rows == pooled.index_select(0, bag)), indices.shape[0]
        places = torch.where(is_largest, position.unsqueeze(-1), none)
        first = put_along(torch.full([bags, table.shape[1]], none), 0, bag, places, SMALLEST)
        of_maxima = torch.cat([indices, indices.new_zeros([1])])[first]
        return torch.where(most == 0, 0.0, pooled), bag, counts, of_maxima
    pooled = put_along(start, 0, bag, torch.where(some, rows, 0.0), ADD)
    pooled = pooled / most.clamp(min=1) if mode == 1 else pooled
    return pooled, bag, counts, torch.zeros_like(offsets)
