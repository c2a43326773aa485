"""Regions of images of torchvision, if torchvision is imported: numc does not need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from numc.frontends.pytorch.operators import pooled_regions


def regions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions by operation."""
    return {torch.ops.torchvision.roi_align.default: _roi_align} if hasattr(torch.ops.torchvision, "roi_align") else {}


def of_levels(
    features: Sequence[torch.Tensor],
    boxes: Sequence[torch.Tensor],
    bins: Sequence[int],
    samples: int,
    scales: Sequence[float],
    mapper: Callable[..., torch.Tensor],
) -> torch.Tensor:
    """The regions of boxes, [count, channels, *bins], each of the level of features that its size says.

    It is what torchvision's MultiScaleRoIAlign computes, which asks for the number of boxes as an int.
    """
    align = torch.ops.torchvision.roi_align
    regions = torch.cat([torch.cat([torch.full_like(b[:, :1], n), b], 1) for n, b in enumerate(boxes)])
    if len(features) == 1:
        return align(features[0], regions, scales[0], *bins, samples, False)
    levels = mapper(boxes)
    pooled = features[0].new_zeros([regions.shape[0], features[0].shape[1], *bins])
    for level, (feature, scale) in enumerate(zip(features, scales, strict=True)):
        where = (levels == level).nonzero().squeeze(1)
        pooled = pooled.index_put((where,), align(feature, regions[where], scale, *bins, samples, False))
    return pooled


def _roi_align(
    image: torch.Tensor, regions: torch.Tensor, scale: float, rows: int, columns: int, samples: int, aligned: bool
) -> torch.Tensor:
    """torchvision::roi_align of [n, channels, rows, columns] and [count, 5]: [count, channels, rows, columns]."""
    if image.dtype != regions.dtype or image.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    ends = regions[:, 1:] * torch.full((), scale, dtype=image.dtype)
    if aligned:
        ends = ends - 0.5
    starts, spans = ends[:, :2].flip(1), (ends[:, 2:] - ends[:, :2]).flip(1)
    if not aligned:
        spans = torch.where(spans < 1, 1.0, spans)
    sizes = [spans[:, n : n + 1] / bins for n, bins in enumerate((rows, columns))]
    firsts = (
        starts[:, n : n + 1] + torch.arange(bins, dtype=image.dtype) * sizes[n]
        for n, bins in enumerate((rows, columns))
    )
    pooled = pooled_regions(image.permute(0, 2, 3, 1), regions[:, 0], *firsts, torch.cat(sizes, 1), max(samples, 0))
    return pooled.permute(0, 3, 1, 2).contiguous()
