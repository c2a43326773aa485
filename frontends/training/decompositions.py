"""Decompositions of operations that torch-mlir does not lower, or lowers to other results than torch's.

Gradients of convolutions become convolutions, so that each is a contraction. Scattered writes become elementwise
operations and sums. Random numbers stay separate operations, which torch's generator runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decompositions as torch_rnn

from numc.frontends.pytorch.convolutions import conv_dgrad
from numc.frontends.pytorch.decompositions import add, decomposition_table
from numc.frontends.training import pools

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
    images = value.reshape([batch, groups, ci // groups, *value.shape[2:]]).permute([2, 1, 0, *inner])
    images = images.reshape([ci // groups, groups * batch, *value.shape[2:]])
    kernels = grad.transpose(0, 1)
    zeros = [0] * rank
    # The gradient serves as kernel, so that stride and dilation of the convolution are exchanged.
    found = aten.convolution(images, kernels, None, dilation, padding, stride, False, zeros, groups).transpose(0, 1)
    for d in range(rank):
        if found.shape[2 + d] != size[2 + d]:  # cut off inputs that no window reaches
            found = found.narrow(2 + d, 0, size[2 + d])
    return found.contiguous()  # dense like the weight: torch would copy any other gradient


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
    s, p, d = (list(x) * (rank if len(x) == 1 else 1) for x in (stride, padding, dilation))
    dgrad = wgrad = bias = None
    if output_mask[0]:
        if transposed:  # a transposed convolution is the gradient of a convolution, so its gradient is that convolution
            dgrad = aten.convolution(grad, weight, None, s, p, d, False, [0] * rank, groups)
            for axis in range(2, 2 + rank):
                dgrad = dgrad.narrow(axis, 0, value.shape[axis])
        else:
            dgrad = conv_dgrad(grad, weight, value.shape, s, p, d, groups)
    if output_mask[1]:
        if transposed:
            wgrad = conv_wgrad(value, grad, weight.shape, s, p, d, groups)
        else:
            wgrad = conv_wgrad(grad, value, weight.shape, s, p, d, groups)
    if output_mask[2]:
        bias = grad.sum([0, *range(2, 2 + rank)])
    return dgrad, wgrad, bias


def rnn(
    value: torch.Tensor,
    hidden: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer: Callable[..., Any],
) -> tuple[torch.Tensor, list[Any]]:
    """Return all layers of a recurrent network, with the dropout between them that torch's decomposition leaves out."""
    value = value.transpose(0, 1) if batch_first else value
    last = []
    for n in range(num_layers):
        ours, state, theirs, back = torch_rnn.params_hiddens(params, hidden, n, bidirectional)
        found, end = layer(value, state, ours, has_biases)
        last.append(end)
        if bidirectional:
            reverse, end = layer(value, back, theirs, has_biases, reverse=True)
            last.append(end)
            found = torch.cat([found, reverse], found.dim() - 1)
        value = torch.dropout(found, dropout, train) if dropout and train and n + 1 < num_layers else found
    return value.transpose(0, 1) if batch_first else value, last


def native_dropout(value: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.native_dropout, whose mask stays with torch's generator, so that it is the mask of eager torch."""
    if train is False or p == 0.0:
        return value.clone(), torch.ones_like(value, dtype=torch.bool)
    if p == 1.0:
        return torch.zeros_like(value), torch.zeros_like(value, dtype=torch.bool)
    # Drawn in the order of memory as in eager torch. It does not depend on `value`, so that it need not wait for it.
    strides = torch.empty_like(value).stride()
    order = sorted(range(value.dim()), key=lambda d: (-strides[d], d))
    place = aten.empty.memory_format([value.shape[d] for d in order], dtype=torch.float32)
    mask = aten.bernoulli.p(place, 1.0 - p).permute([order.index(d) for d in range(value.dim())])
    return value * (mask * (1.0 / (1.0 - p))), mask != 0


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


def _foreach(packet: Any) -> Callable[..., list[Any]]:
    """Return a function that applies an operation to each element of lists."""

    def decomposed(*args: Any, **kwargs: Any) -> list[Any]:
        count = next(len(a) for a in args if isinstance(a, (list, tuple)))
        return [packet(*(a[n] if isinstance(a, (list, tuple)) else a for a in args), **kwargs) for n in range(count)]

    return decomposed


def _foreach_with_value(packet: Any) -> Callable[..., list[Any]]:
    """Return addcmul or addcdiv over lists, with the `value` that is a keyword for single tensors."""
    many = _foreach(lambda a, b, c, value: packet(a, b, c, value=value))
    return lambda a, b, c, value=1: many(a, b, c, value)


_FOREACH = (
    *("add", "sub", "mul", "div", "lerp", "sqrt", "neg", "pow", "reciprocal", "maximum", "minimum", "abs", "sign"),
    "exp",
)


@functools.cache
def training_table() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of the graphs that torch.compile traces."""
    table = dict(decomposition_table())
    for name in _FOREACH:
        many = getattr(aten, f"_foreach_{name}")
        table |= {getattr(many, overload): _foreach(getattr(aten, name)) for overload in many.overloads()}
    for name in ("addcmul", "addcdiv"):
        many = getattr(aten, f"_foreach_{name}")
        table |= {overload: _foreach_with_value(getattr(aten, name)) for overload in (many.Scalar, many.ScalarList)}
    table |= {
        aten.convolution_backward.default: convolution_backward,
        aten.native_dropout.default: native_dropout,
        aten.nll_loss_backward.default: nll_loss_backward,
        aten.nll_loss2d_backward.default: nll_loss_backward,
        aten.max_pool2d_with_indices_backward.default: pools.max_pool2d_backward,
        aten.max_pool3d_with_indices_backward.default: (
            lambda grad, x, k, s, p, d, ceil, indices: pools.indexed_pool_backward(grad, x, indices, 3)
        ),
        aten.adaptive_max_pool2d_backward.default: lambda g, x, i: pools.indexed_pool_backward(g, x, i, 2),
        aten.adaptive_max_pool3d_backward.default: lambda g, x, i: pools.indexed_pool_backward(g, x, i, 3),
        aten.avg_pool2d_backward.default: pools.avg_pool_backward,
        aten.avg_pool3d_backward.default: pools.avg_pool_backward,
        aten._adaptive_avg_pool2d_backward.default: lambda g, x: pools.adaptive_avg_pool_backward(g, x, 2),
        aten._adaptive_avg_pool3d_backward.default: lambda g, x: pools.adaptive_avg_pool_backward(g, x, 3),
        # This is how Dynamo writes addcmul; b may be a number.
        torch.ops.prims.fma.default: lambda a, b, c: a * b + c if isinstance(b, torch.Tensor) else add(c, a, b),
    }
    return table
