"""Sampling of images at places that a tensor gives."""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp.decompositions import _upsample_cubic_interp1d as cubic

ZEROS, BORDER, REFLECTION = range(3)
"""What is outside of an image."""
BILINEAR, NEAREST, CUBIC = range(3)


def grid_sampler_2d(
    value: torch.Tensor, grid: torch.Tensor, mode: int, outside: int, align_corners: bool
) -> torch.Tensor:
    """aten.grid_sampler_2d, also at NaN and infinities, of which torch's decomposition makes zeros.

    value: [n, channels, rows, columns]. grid: [n, *sizes, 2], of columns and rows, from -1 to 1.
    """
    rows, columns = value.shape[2:]
    x, y = (_unnormalized(grid[..., n].unsqueeze(1), size, align_corners) for n, size in enumerate((columns, rows)))

    def inside(place: torch.Tensor, size: Any) -> torch.Tensor:
        return place if outside == ZEROS else _inside(place, size, outside, align_corners)

    def at(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _elements(value, x, y)

    if mode == CUBIC:
        left, top = x.floor(), y.floor()
        steps = (-1, 0, 1, 2)
        lines = [cubic([at(inside(left + n, columns), inside(top + m, rows)) for n in steps], x - left) for m in steps]
        return cubic(lines, y - top)
    x, y = inside(x, columns), inside(y, rows)
    if mode == NEAREST:
        return at(x.round(), y.round())
    left, top = x.floor(), y.floor()
    right, bottom = left + 1, top + 1
    return (
        at(left, top) * ((right - x) * (bottom - y))
        + at(right, top) * ((x - left) * (bottom - y))
        + at(left, bottom) * ((right - x) * (y - top))
        + at(right, bottom) * ((x - left) * (y - top))
    )


def _unnormalized(place: torch.Tensor, size: Any, align_corners: bool) -> torch.Tensor:
    """Return places between -1 and 1 as numbers of elements."""
    half = size * 0.5
    return place * (half - 0.5 if align_corners else half) + (half - 0.5)


def _inside(place: torch.Tensor, size: Any, outside: int, align_corners: bool) -> torch.Tensor:
    """Return places in an image, also of what lies outside; that of NaN is 0."""
    if outside == REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if align_corners and size == 1:
            return torch.zeros_like(place)
        distance = (place - low).abs()
        rest = torch.fmod(distance, torch.full((), 1, dtype=place.dtype) * span)
        turns = (distance / span).floor()
        place = torch.where(torch.remainder(turns, 2) == 0, rest, span - rest) + low
    return torch.where(place > 0, place, 0.0).clamp(max=size - 1)


def _elements(value: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the elements at places, 0 outside of the image."""
    rows, columns = value.shape[2:]
    known = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    x, y = (torch.where(known, each, 0.0).long() for each in (x, y))
    images, channels = (torch.arange(size) for size in value.shape[:2])
    found = value[images.reshape([-1, 1, 1, 1]), channels.reshape([-1, 1, 1]), y, x]
    return torch.where(known, found, 0.0)
