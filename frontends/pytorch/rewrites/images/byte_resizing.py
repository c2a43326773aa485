"""Resizing of images of bytes as eager torch computes it: sums of integers whose weights have 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_LIMIT = 1 << 15
"""The largest weight lies below."""
_MOST_PRECISION = 22


@dataclass(frozen=True)
class Filter:
    """A kernel of a real number, and how far it reaches."""

    kernel: Callable[[float], float]
    reach: int


def _linear(x: float) -> float:
    return max(1.0 - abs(x), 0.0)


def _cubic(a: float) -> Callable[[float], float]:
    def kernel(x: float) -> float:
        x = abs(x)
        if x < 1:
            return ((a + 2) * x - (a + 3)) * x * x + 1
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0

    return kernel


LINEAR, CUBIC, SMOOTH_CUBIC = Filter(_linear, 1), Filter(_cubic(-0.75), 2), Filter(_cubic(-0.5), 2)


def resized(
    value: torch.Tensor,
    sizes: Sequence[Any],
    align_corners: bool,
    factors: Sequence[Any],
    filter_: Filter,
    smooth: bool = False,
) -> Any:
    """Return images of fixed sizes resized, the columns first. smooth: whether windows grow with the step between them.

    value: uint8, [n, channels, rows, columns].
    """
    if not all(isinstance(n, int) for n in (*value.shape[2:], *sizes)):
        return NotImplemented
    for dim in (3, 2):
        size, wanted, factor = value.shape[dim], sizes[dim - 2], factors[dim - 2]
        if size == wanted:
            continue
        step = _step(size, wanted, align_corners, factor)
        if smooth:
            windows = [_smooth_window(n, size, step, filter_) for n in range(wanted)]
        else:
            windows = [_window(n, size, step, align_corners, filter_) for n in range(wanted)]
        value = _sums(value, dim, windows)
    return value


def _step(size: int, wanted: int, align_corners: bool, factor: float | None) -> float:
    if align_corners:
        return (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / factor if factor else size / wanted


def _window(n: int, size: int, step: float, align_corners: bool, filter_: Filter) -> tuple[list[int], list[float]]:
    """Return the places of element `n` and their weights. What lies outside counts for the element at the border."""
    position = n * step if align_corners else step * (n + 0.5) - 0.5
    if filter_.reach == 1:
        position = max(position, 0.0)
    near = min(math.floor(position), size - 1)
    rest = min(max(position - near, 0.0), 1.0)
    first = max(near - filter_.reach + 1, 0)
    count = min(near + filter_.reach + 1, size) - first
    weights = [0.0] * (2 * filter_.reach)
    at = 0
    for k in range(2 * filter_.reach):
        outer = near - filter_.reach + 1 + k
        at = 0 if outer <= 0 else count - 1 if outer >= size - 1 else at
        weights[at] += filter_.kernel(k + 1 - filter_.reach - rest)
        at += 1
    return list(range(first, first + count)), weights[:count]


def _smooth_window(n: int, size: int, step: float, filter_: Filter) -> tuple[list[int], list[float]]:
    stretch = max(step, 1.0)
    reach, centre = filter_.reach * stretch, step * (n + 0.5)
    first = max(int(centre - reach + 0.5), 0)
    count = min(max(min(int(centre + reach + 0.5), size) - first, 0), 2 * math.ceil(reach) + 1)
    weights = [filter_.kernel((k + first - centre + 0.5) * (1 / stretch)) for k in range(count)]
    total = sum(weights)
    return list(range(first, first + count)), [w / total for w in weights] if total else weights


def _sums(value: torch.Tensor, dim: int, windows: Sequence[tuple[list[int], list[float]]]) -> torch.Tensor:
    """Return the sums over the windows along a dimension, rounded to bytes."""
    most = max(0.0, *(weight for _, weights in windows for weight in weights))
    precision = 0
    while precision < _MOST_PRECISION and int(0.5 + most * (1 << (precision + 1))) < _LIMIT:
        precision += 1
    width = max(len(places) for places, _ in windows)
    rows, factors = list[int](), list[int]()
    for places, weights in windows:
        behind = width - len(places)
        rows += [*places, *[places[0]] * behind]
        factors += [*(int(math.copysign(0.5, w) + w * (1 << precision)) for w in weights), *[0] * behind]
    shape = [len(windows), width, *[1] * (3 - dim)]
    apart = value.index_select(dim, _constant(rows, np.int64)).unflatten(dim, [len(windows), width]).int()
    sums = (apart * _constant(factors, np.int32).reshape(shape)).sum(dim + 1, dtype=torch.int32)
    return ((sums + (1 << (precision - 1))) >> precision).clamp(0, 255).to(torch.uint8)


def _constant(numbers: Sequence[int], dtype: Any) -> torch.Tensor:
    """Return a tensor of a graph that is being traced, into which torch.tensor would write an operation in position."""
    constant: torch.Tensor = torch.ops.aten.lift_fresh_copy.default(torch.from_numpy(np.array(numbers, dtype)))
    return constant
