"""Decompositions of gradients. Those of convolutions become convolutions, so that each is a contraction.

Scattered writes become elementwise operations and sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

from numc.frontends.pytorch.rewrites.images import pools
from numc.frontends.pytorch.rewrites.images.convolutions import conv_dgrad, each_dim

aten = torch.ops.aten


def conv_wgrad(
    grad: torch.Tensor,
    value: torch.Tensor,
    size: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """Return the gradient of a convolution's weight of shape `size`, as a convolution over the batch.

    grad: [n, co, *out]. value: the input, [n, ci, *in].
    """
    batch, rank = grad.shape[0], len(stride)
    ci, inner = value.shape[1], list(range(3, 3 + rank))
    if groups == 1:  # reshaped, it would be another copy
        images = value.transpose(0, 1)
    else:
        images = value.reshape([batch, groups, ci // groups, *value.shape[2:]]).permute([2, 1, 0, *inner])
        images = images.reshape([ci // groups, groups * batch, *value.shape[2:]])
    kernels = grad.transpose(0, 1)
    zeros = [0] * rank
    # The gradient serves as kernel, so that stride and dilation of the convolution are exchanged.
    gradient = aten.convolution(images, kernels, None, dilation, padding, stride, False, zeros, groups)
    for d in range(rank):
        if gradient.shape[2 + d] != size[2 + d]:  # cut off inputs that no window reaches
            gradient = gradient.narrow(2 + d, 0, size[2 + d])
    return gradient.transpose(0, 1).contiguous()  # dense like the weight: torch would copy any other gradient


def convolution_backward(
    grad: torch.Tensor,
    value: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """aten.convolution_backward of any rank, stride, dilation and number of groups, also of transposed convolutions."""
    rank = value.dim() - 2
    s, p, d = (each_dim(x, rank) for x in (stride, padding, dilation))
    dgrad = wgrad = bias = None
    if output_mask[2]:
        bias = grad.sum([0, *range(2, 2 + rank)])
    if guard_or_false(grad.numel() == 0) or guard_or_false(value.numel() == 0):  # an empty batch: sums of nothing
        made = ((value, output_mask[0]), (weight, output_mask[1]))
        dgrad, wgrad = (torch.zeros(of.shape, dtype=of.dtype) if wanted else None for of, wanted in made)
        return dgrad, wgrad, bias
    if output_mask[0]:
        if transposed:  # a transposed convolution is the gradient of a convolution, so its gradient is that convolution
            dgrad = aten.convolution(grad, weight, None, s, p, d, False, [0] * rank, groups)
            for axis in range(2, 2 + rank):
                dgrad = dgrad.narrow(axis, 0, value.shape[axis])
        else:
            dgrad = conv_dgrad(grad, weight, value.shape, stride=s, padding=p, dilation=d, groups=groups)
    if output_mask[1]:
        if transposed:
            wgrad = conv_wgrad(value, grad, weight.shape, stride=s, padding=p, dilation=d, groups=groups)
        else:
            wgrad = conv_wgrad(grad, value, weight.shape, stride=s, padding=p, dilation=d, groups=groups)
    return dgrad, wgrad, bias


def nll_loss_backward(
    grad: torch.Tensor,
    value: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    """aten.nll_loss_backward and nll_loss2d_backward, with a comparison instead of torch's scattered write."""
    axis = 0 if value.dim() < 2 else 1
    if reduction == 1:
        grad = grad / total_weight
    if value.dim() < 2:  # one sample: of several targets the first counts
        target, grad = target.reshape([-1])[:1], grad.reshape([-1])[:1]
    else:
        target = target.unsqueeze(axis)
        grad = grad.unsqueeze(axis) if grad.dim() > 0 else grad
    shape = [1] * value.dim()
    shape[axis] = value.shape[axis]
    hit = (torch.arange(value.shape[axis]).reshape(shape) == target) & (target != ignore_index)
    if weight is not None:
        grad = grad * weight.reshape(shape)
    return torch.where(hit, -grad, 0.0)


def weight_norm_backward(
    grad: torch.Tensor, value: torch.Tensor, scale: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """aten._weight_norm_interface_backward: the gradients of `value` and `scale`, of scale * value / norms."""
    others = [n for n in range(value.dim()) if n != dim]
    total = (grad * value).sum(others, keepdim=True)
    return scale / norms * (grad - value * (total / (norms * norms))), total / norms


def gradients() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of gradients by operation."""
    return {
        aten.convolution_backward.default: convolution_backward,
        aten._weight_norm_interface_backward.default: weight_norm_backward,
        aten.nll_loss_backward.default: nll_loss_backward,
        aten.nll_loss2d_backward.default: nll_loss_backward,
        aten.max_pool2d_with_indices_backward.default: partial(pools.max_pool_backward, rank=2),
        aten.max_pool3d_with_indices_backward.default: partial(pools.max_pool_backward, rank=3),
        aten.adaptive_max_pool2d_backward.default: lambda g, x, i: pools.indexed_pool_backward(g, x, i, 2),
        aten.adaptive_max_pool3d_backward.default: lambda g, x, i: pools.indexed_pool_backward(g, x, i, 3),
        aten.avg_pool2d_backward.default: pools.avg_pool_backward,
        aten.avg_pool3d_backward.default: pools.avg_pool_backward,
        aten._adaptive_avg_pool2d_backward.default: lambda g, x: pools.adaptive_avg_pool_backward(g, x, 2),
        aten._adaptive_avg_pool3d_backward.default: lambda g, x: pools.adaptive_avg_pool_backward(g, x, 3),
    }
