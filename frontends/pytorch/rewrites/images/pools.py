"""Decompositions of pooling without a batch, and of its gradients.

Gradients are sums over the windows of each element, in the order of eager torch but for those of max_pool2d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from operator import getitem
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

from numc.frontends.pytorch.rewrites.images.convolutions import each_dim

aten = torch.ops.aten
Reach = list[tuple[torch.Tensor, torch.Tensor]]
"""For one dimension, for each element of the input: the number of a window, and whether the element is in it."""
_Reaching = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Windows = tuple[list[int], list[int], list[int], list[int], bool]
"""Sizes, strides, padding and dilation of windows, and whether their number is rounded up."""
_LARGEST = 2**31  # places below it are compared as 32-bit integers


def max_pool_backward(
    grad: torch.Tensor,
    value: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: torch.Tensor,
    *,
    rank: int,
) -> torch.Tensor:
    """aten.max_pool2d_with_indices_backward and max_pool3d_with_indices_backward, for 2 and 3 dimensions.

    An element gets the gradients of the windows whose maximum it is. It asks each of the few windows that can reach it,
    so that every element of the result is computed once. Until then, the place in its window is known of every maximum,
    which takes a byte for windows of up to 127 elements.
    """
    windows = _windows(rank, kernel, stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)
    sizes, counts = value.shape[-rank:], grad.shape[-rank:]
    if math.prod(sizes) >= _LARGEST or not _come_from_pooling(indices, value, windows):
        return indexed_pool_backward(grad, value, indices, rank)
    order = list(product(*(_reaching(*each) for each in zip(sizes, counts, *windows[:4], strict=True))))
    if rank == 2:  # the last window first, unlike eager torch: the bits of these sums are as they always were
        order.reverse()
    grad, places = grad.flatten(-rank), _places(indices, sizes, windows).flatten(-rank).to(torch.int32)
    total: torch.Tensor | float = 0.0
    for (window, position, inside), *others in order:
        for count, length, (other, digit, there) in zip(counts[1:], windows[0][1:], others, strict=True):
            window, position = window.unsqueeze(-1) * count + other, position.unsqueeze(-1) * length + digit
            inside = inside.unsqueeze(-1) & there
        window, position = window.flatten(), torch.where(inside, position, -1).flatten()
        part = torch.where(places.index_select(-1, window) == position, grad.index_select(-1, window), 0.0)
        total = part + total
    assert isinstance(total, torch.Tensor)
    return total.reshape(value.shape)


def _reaching(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> list[_Reaching]:
    """Return for each element of a dimension all windows that it is in, in order, and no window twice.

    With the number of a window comes the element's place in it, and whether it has one.
    """
    most, here = min(count, ((kernel - 1) * dilation) // stride + 1), torch.arange(size, dtype=torch.int32) + padding
    last = (here // stride).clamp(most - 1, count - 1)
    reaching = []
    for window in (last - n for n in reversed(range(most))):
        step = here - window * stride
        inside = (step >= 0) & (step <= (kernel - 1) * dilation) & (step % dilation == 0)
        reaching.append((window, step // dilation, inside))
    return reaching


def _places(indices: torch.Tensor, sizes: Sequence[int], windows: Windows) -> torch.Tensor:
    """Return the places in their windows of the elements of these indices, in the fewest bytes."""
    kernel, stride, padding, dilation, _ = windows
    rest, position = indices.to(torch.int32), torch.zeros((), dtype=torch.int32)
    length = 1
    for d in reversed(range(len(sizes))):
        first = torch.arange(indices.shape[d - len(sizes)], dtype=torch.int32) * stride[d] - padding[d]
        here = rest % sizes[d] if d else rest
        digit = (here - first.reshape([-1, *[1] * (len(sizes) - 1 - d)])) // dilation[d]
        position, rest, length = position + digit * length, rest // sizes[d], length * kernel[d]
    return position.to(torch.int8 if length <= 127 else torch.int16 if length < 2**15 else torch.int32)


def _come_from_pooling(indices: torch.Tensor, value: torch.Tensor, windows: Windows) -> bool:
    """Whether indices are traced to a pooling by the same windows, so that each of them lies in its own window."""
    mode = get_proxy_mode()
    traced = None if mode is None else get_proxy_slot(indices, mode.tracer, None)
    if traced is None or traced.proxy.node.target is not getitem:
        return False
    made, rank = traced.proxy.node.args[0], len(windows[0])
    if made.target is not (aten.max_pool2d_with_indices if rank == 2 else aten.max_pool3d_with_indices).default:
        return False
    return made.args[0].meta["val"].shape == value.shape and _windows(rank, *made.args[1:], **made.kwargs) == windows


def _windows(
    rank: int,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Windows:
    each = [each_dim(numbers, rank) for numbers in (kernel, stride or kernel, padding, dilation)]
    return each[0], each[1], each[2], each[3], ceil_mode


def avg_pool_backward(
    grad: torch.Tensor,
    value: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> torch.Tensor:
    """aten.avg_pool2d_backward and avg_pool3d_backward."""
    rank = len(kernel)
    steps, pads = each_dim(stride or kernel, rank), each_dim(padding, rank)
    sizes, counts = value.shape[-rank:], grad.shape[-rank:]
    reaches, areas = [], []
    for d, (k, s, p, size, count) in enumerate(zip(kernel, steps, pads, sizes, counts, strict=True)):
        here, start = torch.arange(size), torch.arange(count) * s - p
        # The last window that an element can be in, and the windows before it that can reach it.
        last, most = (here + p) // s, -(-k // s)
        windows = [last - n for n in reversed(range(most))]
        reaches.append([(w.clamp(0, count - 1), (w >= 0) & (w < count) & (w * s - p + k > here)) for w in windows])
        end = (start + k).clamp(max=size + p)
        length = end - start if count_include_pad else end.clamp(max=size) - start.clamp(min=0)
        areas.append(length.reshape([-1, *[1] * (rank - 1 - d)]))
    over = math.prod(areas) if divisor is None else divisor
    return _gathered(grad / over, reaches)


def adaptive_avg_pool_backward(grad: torch.Tensor, value: torch.Tensor, rank: int) -> torch.Tensor:
    """aten._adaptive_avg_pool2d_backward and _adaptive_avg_pool3d_backward, for 2 and 3 dimensions."""
    reaches, areas = [], []
    for d, (size, count) in enumerate(zip(value.shape[-rank:], grad.shape[-rank:], strict=True)):
        here, window = torch.arange(size), torch.arange(count)
        first, end = here * count // size, ((here + 1) * count + size - 1) // size
        most = max(-(-(n + 1) * count // size) - n * count // size for n in range(size))
        reaches.append([((first + n).clamp(max=count - 1), first + n < end) for n in range(most)])
        length = ((window + 1) * size + count - 1) // count - window * size // count
        areas.append(length.reshape([-1, *[1] * (rank - 1 - d)]))
    return _gathered(grad / math.prod(areas), reaches)


def _gathered(grad: torch.Tensor, reaches: list[Reach]) -> torch.Tensor:
    """Return, for each element, the sum over its windows; reaches are those of the last dimensions."""
    first, *others = reaches
    axis = -len(reaches)
    total: torch.Tensor | None = None
    for window, inside in first:
        part = torch.where(inside.reshape([-1, *[1] * len(others)]), grad.index_select(axis, window), 0.0)
        if others:
            part = _gathered(part, others)
        total = part if total is None else total + part
    assert total is not None
    return total


def indexed_pool_backward(grad: torch.Tensor, value: torch.Tensor, indices: torch.Tensor, rank: int) -> torch.Tensor:
    """Return the gradient of a pooling whose indices say where its results come from, in the last `rank` dimensions."""
    lead, sizes = value.shape[:-rank], value.shape[-rank:]
    zeros = torch.zeros([*lead, math.prod(sizes)], dtype=grad.dtype)
    gradient: torch.Tensor = aten.scatter_add(zeros, -1, indices.flatten(-rank), grad.flatten(-rank))
    return gradient.reshape(value.shape)


def max_unpool(rank: int) -> Callable[..., torch.Tensor]:
    """Return aten.max_unpool2d or max_unpool3d, whose places are checked each in its own image."""

    def decomposed(value: torch.Tensor, indices: torch.Tensor, sizes: Sequence[Any], *_: Any) -> torch.Tensor:
        lead = value.shape[:-rank]
        zeros = torch.zeros([*lead, math.prod(sizes)], dtype=value.dtype)
        return aten.scatter(zeros, -1, indices.flatten(-rank), value.flatten(-rank)).reshape([*lead, *sizes])

    return decomposed


def adaptive_max_pool(value: torch.Tensor, counts: Sequence[int]) -> Any:
    """aten.adaptive_max_pool2d and adaptive_max_pool3d, and places: of the first largest element, or the last NaN."""
    rank, sizes = len(counts), value.shape[-len(counts) :]
    maxima, position = value, torch.zeros_like(value, dtype=torch.int64)
    for d, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        axis = d - rank
        here, window = torch.arange(size), torch.arange(count).unsqueeze(-1)
        inside = (here >= window * size // count) & (here < ((window + 1) * size + count - 1) // count)
        moved = torch.where(inside, maxima.transpose(axis, -1).unsqueeze(-2), float("-inf"))
        # The first of the largest in the order of the image: its place has the dimensions before in its first digits.
        digits = (position.transpose(axis, -1) * size + here).unsqueeze(-2)
        most = moved.amax(-1, keepdim=True)
        first = torch.where(inside & (moved == most), digits, math.prod(sizes)).amin(-1)
        last = torch.where(inside & moved.isnan(), digits, -1).amax(-1)
        position = torch.where(last < 0, first, last).transpose(axis, -1)
        maxima = most.squeeze(-1).transpose(axis, -1)
    return maxima, position


def poolings() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of pooling by operation."""
    ranks = {
        aten.avg_pool2d.default: 2,
        aten.avg_pool3d.default: 3,
        aten.max_pool2d_with_indices.default: 2,
        aten.max_pool3d_with_indices.default: 3,
    }
    return {
        aten.adaptive_max_pool2d.default: adaptive_max_pool,
        aten.adaptive_max_pool3d.default: adaptive_max_pool,
        aten.max_unpool2d.default: max_unpool(2),
        aten.max_unpool3d.default: max_unpool(3),
        **{operation: _plain(operation, rank) for operation, rank in ranks.items()},
    }


def _plain(operation: Any, rank: int) -> Callable[..., Any]:
    """Return a pooling of an image without a batch as that of a batch of one, and cut windows larger than the image.

    Strides and padding are always given for each dimension: of a single number torch-mlir does not end, or crashes.
    """

    def decomposed(
        value: torch.Tensor, kernel: Sequence[int], stride: Any = (), padding: Any = (), *args: Any, **kwargs: Any
    ) -> Any:
        windows = each_dim(kernel, rank), each_dim(stride or kernel, rank)
        is_whole = bool(stride) and len(padding) in (0, rank)
        padding = each_dim(padding or [0], rank)
        cut = _cut(value.shape[-rank:], *windows, padding)
        if value.dim() == rank + 1:
            pooled = operation(value.unsqueeze(0), *cut, padding, *args, **kwargs)
            return tuple(each.squeeze(0) for each in pooled) if isinstance(pooled, (list, tuple)) else pooled.squeeze(0)
        return NotImplemented if is_whole and cut == windows else operation(value, *cut, padding, *args, **kwargs)

    return decomposed


def _cut(sizes: Sequence[Any], kernel: list[int], stride: list[int], padding: list[int]) -> tuple[list[int], list[int]]:
    """Return windows and strides without windows that reach beyond the padded image, which ceil_mode allows.

    Such a window is the only one. (EfficientNet of the transformers library has windows of 1280 x 1280 on 7 x 7.)
    """
    kernel, stride = kernel.copy(), stride.copy()
    for d, (size, pad) in enumerate(zip(sizes, padding, strict=True)):
        if isinstance(size, int) and kernel[d] > size + 2 * pad:
            kernel[d] = stride[d] = size + 2 * pad
    return kernel, stride
