"""Resizing to the nearest element, where torch-mlir takes another one than torch, between elements, and smoothly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.symbolic_shapes import statically_known_true

from numc.frontends.pytorch.rewrites.images import byte_resizing

aten = torch.ops.aten
Kernel = Callable[[torch.Tensor], torch.Tensor]


def nearest(operation: Any, *, always: bool = False) -> Callable[..., Any]:
    """Return what replaces ``aten.upsample_nearest*.vec``; `always`: because torch-mlir does not know it.

    torch multiplies places by the ratio of the sizes, torch-mlir divides by its inverse, both in float32. Where the
    elements are the same, or sizes are free, torch-mlir's loops stay, which are faster.
    """

    def decomposed(value: Any, sizes: Sequence[Any] | None, factors: Sequence[float] | None) -> Any:
        lengths = value.shape[2:]
        fixed = all(isinstance(n, int) for n in (*lengths, *(sizes or ())))
        if always or (fixed and _differs(lengths, sizes, factors)):
            return decomposition_table[operation](value, sizes, factors)
        return NotImplemented

    return decomposed


def _differs(given: Sequence[int], sizes: Sequence[int] | None, factors: Sequence[float] | None) -> bool:
    """Whether torch-mlir takes other elements along some dimension."""
    if factors is not None:
        wanted = [(int(n * factor), 1 / factor) for n, factor in zip(given, factors, strict=True)]
    else:
        wanted = [(size, n / size) for n, size in zip(given, sizes or (), strict=True)]
    return not all(_same(size, ratio) for size, ratio in wanted)


def _same(size: int, ratio: float) -> bool:
    places = np.arange(size, dtype=np.float32)
    return bool((np.floor(places * np.float32(ratio)) == np.floor(places / np.float32(1 / ratio))).all())


def linear() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of ``aten.upsample_linear1d``, ``upsample_bilinear2d`` and ``upsample_trilinear3d``."""
    packets = (aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d)
    return {
        **{packet.vec: _linear_of_factors for packet in packets},
        **{packet.default: _linear_of_sizes for packet in packets},
    }


def _linear_of_sizes(value: torch.Tensor, sizes: Sequence[Any], align_corners: bool, *factors: Any) -> torch.Tensor:
    return _linear(value, sizes, align_corners, [*factors, *[None] * (len(sizes) - len(factors))])


def _linear_of_factors(
    value: torch.Tensor, sizes: Sequence[Any] | None, align_corners: bool, factors: Sequence[float] | None
) -> torch.Tensor:
    sizes = sizes or _scaled(value, factors)
    return _linear(value, sizes, align_corners, factors or [None] * len(sizes))


def _scaled(value: torch.Tensor, factors: Sequence[float] | None) -> list[Any]:
    assert factors is not None
    return [torch.sym_int(n * factor) for n, factor in zip(value.shape[2:], factors, strict=True)]


def cubic_of_bytes() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of ``aten.upsample_bicubic2d``, which are torch's own of anything but bytes."""
    operations = (aten.upsample_bicubic2d.vec, aten.upsample_bicubic2d.default)
    return {operation: _cubic_of_bytes(operation) for operation in operations}


def _cubic_of_bytes(operation: Any) -> Callable[..., Any]:
    def decomposed(value: torch.Tensor, sizes: Any, align_corners: bool, *factors: Any) -> Any:
        if value.dtype == torch.uint8:
            (factors,) = factors if operation is aten.upsample_bicubic2d.vec else (factors,)
            wanted, scales = sizes or _scaled(value, factors), [*(factors or ()), None, None][:2]
            images = byte_resizing.resized(value, wanted, align_corners, scales, byte_resizing.CUBIC)
            if images is not NotImplemented:
                return images
        return decomposition_table[operation](value, sizes, align_corners, *factors)

    return decomposed


def _linear(
    value: torch.Tensor, sizes: Sequence[Any], align_corners: bool, factors: Sequence[float | None]
) -> torch.Tensor:
    """Return sums of two elements along each dimension whose size changes, with weights that add to 1, as in torch.

    torch's decomposition adds a part of the difference instead, which of an infinity and its neighbour may be NaN.
    """
    dtype = value.dtype
    if dtype == torch.uint8 and value.dim() == 4:
        images = byte_resizing.resized(value, sizes, align_corners, factors, byte_resizing.LINEAR)
        if images is not NotImplemented:
            return images
    resized = value.float() if dtype in (torch.float16, torch.bfloat16) else value
    for dim in reversed(range(2, value.dim())):
        length, wanted, factor = value.shape[dim], sizes[dim - 2], factors[dim - 2]
        if statically_known_true(length == wanted):
            continue
        position = torch.arange(wanted, dtype=resized.dtype)
        if align_corners:
            position = position * ((length - 1) / (wanted - 1) if wanted > 1 else 0.0)
        else:
            position = ((position + 0.5) * (1 / factor if factor else length / wanted) - 0.5).clamp(min=0)
        low = position.long()
        weight = (position - low).clamp(0, 1).reshape([-1, *[1] * (value.dim() - 1 - dim)])
        low_value, high_value = (resized.index_select(dim, n) for n in (low, (low + 1).clamp(max=length - 1)))
        resized = low_value * (1 - weight) + high_value * weight
    return resized.to(dtype)


def smooth_linear(
    value: torch.Tensor, sizes: Sequence[Any], align_corners: bool, rows: Any = None, columns: Any = None
) -> Any:
    """aten._upsample_bilinear2d_aa."""
    if value.dtype == torch.uint8:
        return byte_resizing.resized(value, sizes, align_corners, (rows, columns), byte_resizing.LINEAR, smooth=True)
    return _smooth(value, sizes, align_corners, factors=(rows, columns), kernel=_triangle, radius=1)


def smooth_cubic(
    value: torch.Tensor, sizes: Sequence[Any], align_corners: bool, rows: Any = None, columns: Any = None
) -> Any:
    """aten._upsample_bicubic2d_aa."""
    if value.dtype == torch.uint8:
        filter_ = byte_resizing.SMOOTH_CUBIC
        return byte_resizing.resized(value, sizes, align_corners, (rows, columns), filter_, smooth=True)
    return _smooth(value, sizes, align_corners, factors=(rows, columns), kernel=_cubic, radius=2)


def _triangle(places: torch.Tensor) -> torch.Tensor:
    return (1 - places.abs()).clamp(min=0)


def _cubic(places: torch.Tensor) -> torch.Tensor:
    """Keys' cubic convolution with a = -0.5, as in Pillow."""
    x = places.abs()
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def _smooth(
    value: torch.Tensor, sizes: Sequence[Any], align_corners: bool, factors: Sequence[Any], kernel: Kernel, radius: int
) -> Any:
    """Resize images of fixed sizes by sums over windows, which are wider by the step between them.

    radius: how far the kernel reaches. The first dimension that is resized is that of the columns, as in torch.
    """
    if not value.is_floating_point() or not all(isinstance(n, int) for n in (*value.shape[2:], *sizes)):
        return NotImplemented
    for dim in (3, 2):
        length, wanted, factor = value.shape[dim], sizes[dim - 2], factors[dim - 2]
        if align_corners:
            step = (length - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            step = 1 / factor if factor else length / wanted
        if (wanted, step) != (length, 1):
            places, weights, inside = _windows(length, wanted, step, kernel, radius)
            behind = [1] * (3 - dim)
            apart = value.index_select(dim, places.reshape(-1)).unflatten(dim, list(places.shape))
            apart = torch.where(inside.reshape(*places.shape, *behind), apart, 0.0)  # none is infinite
            weights = weights.to(torch.promote_types(value.dtype, torch.float32))
            value = (apart * weights.reshape(*places.shape, *behind)).sum(dim + 1).to(value.dtype)
    return value


def _windows(given: int, wanted: int, step: float, kernel: Kernel, radius: int) -> Sequence[torch.Tensor]:
    """Return the places of the elements of each window, their weights, and which of them a window has.

    The weights are computed in float64, which is left as it is whatever arithmetic the user chooses.
    """
    stretch = max(step, 1.0)
    reach = radius * stretch
    centres = step * (torch.arange(wanted, dtype=torch.float64) + 0.5)
    first = (centres - reach + 0.5).to(torch.int64).clamp(min=0).unsqueeze(1)
    end = (centres + reach + 0.5).to(torch.int64).clamp(max=given).unsqueeze(1)
    numbers = torch.arange(min(given, math.ceil(2 * reach) + 1))
    inside = numbers < end - first
    weights = kernel((first + numbers - centres.unsqueeze(1) + 0.5) / stretch)
    weights = torch.where(inside, weights, 0.0)
    return torch.where(inside, first + numbers, first), weights / weights.sum(1, keepdim=True), inside
