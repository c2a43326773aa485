"""Decompositions for training: what torch-mlir does not lower, or would lower to something that is not what torch does.

Convolution gradients become convolutions, so that each is a contraction of its own; scattered writes become
elementwise operations and sums; random numbers stay alone, so that torch's generator draws them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

aten = torch.ops.aten


def conv_dgrad(
    grad: torch.Tensor,
    weight: torch.Tensor,
    size: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """Return the gradient of a convolution's input of shape `size`: a convolution of the spread gradient.

    grad: [n, co, *out], weight: [co, ci / groups, *kernel].
    """
    batch, rank = grad.shape[0], len(stride)
    kernel, out = weight.shape[2:], grad.shape[2:]
    spread = grad
    for d in range(rank):
        if stride[d] > 1:  # zeros between the elements of dimension d
            axis = 2 + d
            wide = aten.constant_pad_nd(spread.unsqueeze(axis + 1), [0, 0] * (rank - 1 - d) + [0, stride[d] - 1])
            wide = wide.reshape([*spread.shape[:axis], out[d] * stride[d], *spread.shape[axis + 1 :]])
            spread = wide.narrow(axis, 0, (out[d] - 1) * stride[d] + 1)
    pads = []
    for d in reversed(range(rank)):
        before = dilation[d] * (kernel[d] - 1) - padding[d]
        width = (out[d] - 1) * stride[d] + 1
        pads += [before, size[2 + d] + dilation[d] * (kernel[d] - 1) - before - width]
    spread = _padded(spread, pads)
    co, ci = weight.shape[0], weight.shape[1]
    turned = weight.flip(list(range(2, 2 + rank))) if math.prod(kernel) > 1 else weight
    turned = turned.reshape([groups, co // groups, ci, *kernel]).transpose(1, 2)
    turned = turned.reshape([groups * ci, co // groups, *kernel])
    zeros, ones = [0] * rank, [1] * rank
    found: torch.Tensor = aten.convolution(spread, turned, None, ones, zeros, dilation, False, zeros, groups)
    assert list(found.shape) == [batch, groups * ci, *size[2:]]
    return found


def conv_wgrad(
    grad: torch.Tensor,
    value: torch.Tensor,
    size: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """Return the gradient of a convolution's weight of shape `size`: a convolution over the batch.

    grad: [n, co, *out], value: the input, [n, ci, *in].
    """
    batch, rank = grad.shape[0], len(stride)
    ci, inner = value.shape[1], list(range(3, 3 + rank))
    images = value.reshape([batch, groups, ci // groups, *value.shape[2:]]).permute([2, 1, 0, *inner])
    images = images.reshape([ci // groups, groups * batch, *value.shape[2:]])
    kernels = grad.transpose(0, 1)
    zeros = [0] * rank
    # The gradient is the kernel: its stride is the convolution's dilation and the other way round.
    found = aten.convolution(images, kernels, None, dilation, padding, stride, False, zeros, groups).transpose(0, 1)
    for d in range(rank):
        if found.shape[2 + d] != size[2 + d]:  # inputs that no window reached
            found = found.narrow(2 + d, 0, size[2 + d])
    return found


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
    """aten.convolution_backward: any rank, stride, dilation and number of groups, also of transposed convolutions."""
    rank = value.dim() - 2
    s, p, d = (list(x) * (rank if len(x) == 1 else 1) for x in (stride, padding, dilation))
    dgrad = wgrad = bias = None
    if output_mask[0]:
        if transposed:  # the transposed convolution is the gradient of a convolution, whose forward pass this is
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


def native_dropout(value: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.native_dropout, whose mask alone is drawn by torch's generator: the mask of eager torch."""
    if train is False or p == 0.0:
        return value.clone(), torch.ones_like(value, dtype=torch.bool)
    if p == 1.0:
        return torch.zeros_like(value), torch.zeros_like(value, dtype=torch.bool)
    # Drawn in the order of memory, like eager torch does; made here, so that it does not have to wait for `value`.
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
    """aten.nll_loss_backward and nll_loss2d_backward, with a comparison where torch scatters."""
    axis = 0 if value.dim() < 2 else 1
    if reduction == 1:
        grad = grad / total_weight
    target = target.unsqueeze(axis)
    if grad.dim() > 0:
        grad = grad.unsqueeze(axis)
    shape = [1] * value.dim()
    shape[axis] = value.shape[axis]
    hit = (torch.arange(value.shape[axis]).reshape(shape) == target) & (target != ignore_index)
    if weight is not None:
        grad = grad * weight.reshape(shape)
    return torch.where(hit, -grad, 0.0)


def max_pool2d_backward(
    grad: torch.Tensor,
    value: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: torch.Tensor,
) -> torch.Tensor:
    """aten.max_pool2d_with_indices_backward: each place of the window adds where it was the largest, in order."""
    height, width = value.shape[-2:]
    out_h, out_w = grad.shape[-2:]
    (kh, kw), (ph, pw), (dh, dw) = (_pair(x) for x in (kernel, padding, dilation))
    sh, sw = _pair(stride) if stride else (kh, kw)
    rows, columns = torch.arange(out_h).reshape(out_h, 1) * sh - ph, torch.arange(out_w) * sw - pw
    total: torch.Tensor | None = None
    # How far the windows reach; what is spread over that is cut back to the input.
    full_h, full_w = (out_h - 1) * sh + (kh - 1) * dh + 1, (out_w - 1) * sw + (kw - 1) * dw + 1
    for i in range(kh):
        for j in range(kw):
            place = (rows + i * dh) * width + (columns + j * dw)
            inside = (columns + j * dw >= 0) & (columns + j * dw < width)
            part = torch.where((indices == place) & inside, grad, 0.0)
            part = _spread(_spread(part, -2, sh), -1, sw)
            part = aten.constant_pad_nd(
                part, [j * dw, full_w - j * dw - part.shape[-1], i * dh, full_h - i * dh - part.shape[-2]]
            )
            total = part if total is None else total + part
    assert total is not None
    return _padded(total, [-pw, width + pw - full_w, -ph, height + ph - full_h])


def _padded(value: torch.Tensor, pads: Sequence[int]) -> torch.Tensor:
    """constant_pad_nd with zeros; negative numbers cut, which torch-mlir does not know."""
    for n in range(0, len(pads), 2):
        axis = value.dim() - 1 - n // 2
        start, cut = max(0, -pads[n]), sum(max(0, -p) for p in pads[n : n + 2])
        if cut:
            value = value.narrow(axis, start, value.shape[axis] - cut)
    wide = [max(0, p) for p in pads]
    return aten.constant_pad_nd(value, wide) if any(wide) else value


def _pair(x: Sequence[int]) -> tuple[int, int]:
    return (x[0], x[0]) if len(x) == 1 else (x[0], x[1])


def _spread(value: torch.Tensor, axis: int, step: int) -> torch.Tensor:
    """Put step - 1 zeros between the elements of one of the last two dimensions."""
    if step == 1:
        return value
    size = value.shape[axis]
    if axis == -1:
        wide = aten.constant_pad_nd(value.unsqueeze(-1), [0, step - 1])
        return wide.reshape([*value.shape[:-1], size * step]).narrow(-1, 0, (size - 1) * step + 1)
    wide = aten.constant_pad_nd(value.unsqueeze(-2), [0, 0, 0, step - 1])
    return wide.reshape([*value.shape[:-2], size * step, value.shape[-1]]).narrow(-2, 0, (size - 1) * step + 1)


def _foreach(packet: Any) -> Callable[..., list[Any]]:
    """One operation for each element of the lists."""

    def decomposed(*args: Any, **kwargs: Any) -> list[Any]:
        count = next(len(a) for a in args if isinstance(a, (list, tuple)))
        return [packet(*(a[n] if isinstance(a, (list, tuple)) else a for a in args), **kwargs) for n in range(count)]

    return decomposed


def _foreach_with_value(packet: Any) -> Callable[..., list[Any]]:
    """addcmul and addcdiv, whose `value` is a keyword where there is one tensor."""
    many = _foreach(lambda a, b, c, value: packet(a, b, c, value=value))
    return lambda a, b, c, value=1: many(a, b, c, value)


_FOREACH = (
    *("add", "sub", "mul", "div", "lerp", "sqrt", "neg", "pow", "reciprocal", "maximum", "minimum", "abs", "sign"),
    "exp",
)


@functools.cache
def training_table() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of graphs that torch.compile traces."""
    table = dict(get_decomposition_table())
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
        aten.max_pool2d_with_indices_backward.default: max_pool2d_backward,
        torch.ops.prims.fma.default: lambda a, b, c: a * b + c,
    }
    return table
