"""Convolutions with one channel in each group, gradients of the inputs of convolutions, and padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from numc.frontends.pytorch.operators import inserted

aten = torch.ops.aten


def each_dim(numbers: Sequence[int], rank: int) -> list[int]:
    """Return a number for each dimension: a single one is for all."""
    return list(numbers) * (rank if len(numbers) == 1 else 1)


def convolution(
    value: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """aten.convolution where torch-mlir fails: with one channel in each group, and of transposed ones that cut much.

    It lowers one channel in each group in one or two dimensions only, and a padding that is larger than what windows
    reach over the ends of an image to slices out of bounds.
    """
    rank = value.dim() - 2
    s, p, d = (each_dim(x, rank) for x in (stride, padding, dilation))
    single = groups > 1 and value.shape[1] == groups and (rank == 3 or transposed)
    cuts = transposed and any(p[n] > d[n] * (weight.shape[2 + n] - 1) for n in range(rank))
    if not single and not cuts:
        return NotImplemented
    if transposed:
        extra = each_dim(output_padding, rank)
        size = [value.shape[0], groups * weight.shape[1]]
        for n in range(rank):
            size.append((value.shape[2 + n] - 1) * s[n] - 2 * p[n] + d[n] * (weight.shape[2 + n] - 1) + extra[n] + 1)
        return conv_dgrad(value, weight, size, stride=s, padding=p, dilation=d, groups=groups, bias=bias)
    # The first dimension of the kernel becomes channels of a group, which keeps the order of additions.
    deep, wide = weight.shape[2], padded(value, [0, 0] * (rank - 1) + [p[0], p[0]])
    count = (wide.shape[2] - d[0] * (deep - 1) - 1) // s[0] + 1
    if deep == 1:  # each group still has one channel: make each slice an image
        images = wide[:, :, :: s[0]][:, :, :count].transpose(1, 2).flatten(0, 1)
        convolved = aten.convolution(
            images, weight[:, :, 0], bias, s[1:], p[1:], d[1:], False, [0] * (rank - 1), groups
        )
        return convolved.unflatten(0, [-1, count]).transpose(1, 2)
    slices = [wide.narrow(2, n * d[0], (count - 1) * s[0] + 1)[:, :, :: s[0]] for n in range(deep)]
    channels = torch.stack(slices, 2).flatten(1, 2)
    kernel = weight.transpose(1, 2)  # [co, deep, 1, *kernel]
    zeros, ones = [0, *p[1:]], [1, *d[1:]]
    return aten.convolution(channels, kernel, bias, [1, *s[1:]], zeros, ones, False, [0] * rank, groups)


def conv_dgrad(
    grad: torch.Tensor,
    weight: torch.Tensor,
    size: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the gradient of a convolution's input of shape `size`, as a convolution, with the bias of that.

    grad: [n, co, *out]; zeros are inserted between its elements where the stride is not 1. weight: [co, ci / groups,
    *kernel].
    """
    batch, rank = grad.shape[0], len(stride)
    kernel, out = weight.shape[2:], grad.shape[2:]
    spread = grad
    for d in range(rank):
        if stride[d] > 1:  # insert zeros between the elements of dimension d
            axis = 2 + d
            wide = aten.constant_pad_nd(spread.unsqueeze(axis + 1), [0, 0] * (rank - 1 - d) + [0, stride[d] - 1])
            wide = wide.reshape([*spread.shape[:axis], out[d] * stride[d], *spread.shape[axis + 1 :]])
            spread = wide.narrow(axis, 0, (out[d] - 1) * stride[d] + 1)
    pads = []
    for d in reversed(range(rank)):
        before = dilation[d] * (kernel[d] - 1) - padding[d]
        width = (out[d] - 1) * stride[d] + 1
        pads += [before, size[2 + d] + dilation[d] * (kernel[d] - 1) - before - width]
    spread = padded(spread, pads)
    if spread is not grad:
        spread = inserted(spread)
    co, ci = weight.shape[0], weight.shape[1]
    turned = weight.flip(list(range(2, 2 + rank))) if math.prod(kernel) > 1 else weight
    if groups == 1:  # reshaped, it would be another copy
        turned = turned.transpose(0, 1)
    else:
        turned = turned.reshape([groups, co // groups, ci, *kernel]).transpose(1, 2)
        turned = turned.reshape([groups * ci, co // groups, *kernel])
    zeros, ones = [0] * rank, [1] * rank
    gradient: torch.Tensor = aten.convolution(spread, turned, bias, ones, zeros, dilation, False, zeros, groups)
    assert list(gradient.shape) == [batch, groups * ci, *size[2:]]
    return gradient


def padded(value: torch.Tensor, pads: Sequence[int], fill: float = 0.0) -> torch.Tensor:
    """Return constant_pad_nd of a value; negative widths, which torch-mlir does not have, cut."""
    for n in range(0, len(pads), 2):
        axis = value.dim() - 1 - n // 2
        start, cut = max(0, -pads[n]), sum(max(0, -p) for p in pads[n : n + 2])
        if cut:
            value = value.narrow(axis, start, value.shape[axis] - cut)
    wide = [max(0, p) for p in pads]
    return aten.constant_pad_nd(value, wide, fill) if any(wide) else value


def constant_pad_nd(value: torch.Tensor, pad: Sequence[int], fill: float = 0.0) -> torch.Tensor:
    """aten.constant_pad_nd, also with negative widths, which cut."""
    return padded(value, pad, fill) if min(pad, default=0) < 0 else NotImplemented


def conv_tbc(value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pad: int = 0) -> torch.Tensor:
    """aten.conv_tbc: a convolution of [time, batch, channels]."""
    convolved = aten.convolution(value.permute(1, 2, 0), weight.permute(2, 1, 0), bias, [1], [pad], [1], False, [0], 1)
    return convolved.permute(2, 0, 1)
