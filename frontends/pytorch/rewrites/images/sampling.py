"""Sampling of images at places that a tensor gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

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
        weights, factors = _cubic_weights(x - left), _cubic_weights(y - top)
        lines = [_sum([at(inside(left + n, columns), inside(top + m, rows)) for n in steps], weights) for m in steps]
        return _sum(lines, factors)
    x, y = inside(x, columns), inside(y, rows)
    if mode == NEAREST:
        return at(x.round(), y.round())
    left, top = x.floor(), y.floor()
    to_right, to_bottom = x - left, y - top
    to_left, to_top = 1 - to_right, 1 - to_bottom
    corners = [at(left, top), at(left + 1, top), at(left, top + 1), at(left + 1, top + 1)]
    weights = [to_left * to_top, to_right * to_top, to_left * to_bottom, to_right * to_bottom]
    return _sum(corners, weights)


# What follows has the operations of eager torch's vector loops in their order: in narrow dtypes each of them rounds.


def _sum(values: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> torch.Tensor:
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + value * weight
    return total


def _cubic_weights(distance: torch.Tensor) -> list[torch.Tensor]:
    """Return the weights of the four elements around a place, the second of which is so far before it."""
    a = -0.75

    def far(x: torch.Tensor) -> torch.Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    def near(x: torch.Tensor) -> torch.Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    return [far(distance + 1), near(distance), near(1 - distance), far(2 - distance)]


def _unnormalized(place: torch.Tensor, size: Any, align_corners: bool) -> torch.Tensor:
    """Return places between -1 and 1 as numbers of elements."""
    half = size * 0.5
    return (place + 1) * (half - 0.5) if align_corners else (place + 1) * half - 0.5


def _inside(place: torch.Tensor, size: Any, outside: int, align_corners: bool) -> torch.Tensor:
    """Return places in an image, also of what lies outside; that of NaN is 0."""
    if outside == REFLECTION:
        if align_corners and size == 1:
            return torch.zeros_like(place)
        low, span = (0.0, 2 * size - 2) if align_corners else (-0.5, 2 * size)
        distance = (place - low).abs()
        rest = distance - (distance / span).trunc() * span
        place = torch.minimum(rest, span - rest) + low
    return torch.where(place > 0, place, 0.0).clamp(max=size - 1)


def _elements(value: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the elements at places, 0 outside of the image."""
    rows, columns = value.shape[2:]
    known = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    x, y = (torch.where(known, each, 0.0).long() for each in (x, y))
    images, channels = (torch.arange(size) for size in value.shape[:2])
    elements = value[images.reshape([-1, 1, 1, 1]), channels.reshape([-1, 1, 1]), y, x]
    return torch.where(known, elements, 0.0)
