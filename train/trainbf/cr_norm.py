"""CR_Norm: a normalisation whose output has a learnable range (Xie et al., TrainBF, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from numc.support.arguments import checked_integer
from numc.support.errors import NumcError

EPSILON = 1e-5
MOMENTUM = 0.1
_BLOCK = 16


class CRNorm(nn.Module):  # type: ignore[misc]
    """Returns R (x - mean) / sqrt(variance + epsilon), where the number R is learnt.

    In training, the moments are those of the batch, and running moments follow them; in evaluation, the running moments
    are used. R is a parameter without dimensions that starts at 1; there are no other parameters. The variance is the
    mean square.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int | None = None, *, momentum: float = MOMENTUM, epsilon: float = EPSILON) -> None:
        """Take the number of channels, those of dimension 1, or None for one pair of moments of the whole tensor.

        momentum: the weight of the newest batch in the running moments. Raises NumcError for a number of channels that
        is none.
        """
        super().__init__()
        self.channels = None if channels is None else checked_integer(channels, "CRNorm: channels", 1, 2**31 - 1)
        self.momentum, self.epsilon = momentum, epsilon
        self.R = nn.Parameter(torch.ones(()))
        shape = () if self.channels is None else (self.channels,)
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_var", torch.ones(shape))

    def extra_repr(self) -> str:
        """Return what `print` shows between the parentheses."""
        return "whole tensor" if self.channels is None else f"{self.channels} channels"

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x: [...], or [n, channels, ...]. Raises NumcError for another shape."""
        if self.channels is None:
            axes, shape = tuple(range(x.dim())), (1,) * x.dim()
        elif x.dim() < 2 or x.shape[1] != self.channels:
            sizes = " x ".join(str(size) for size in x.shape)
            raise NumcError(f"CRNorm: got a tensor of {sizes}, want {self.channels} channels in dimension 1")
        else:
            axes, shape = (0, *range(2, x.dim())), (1, -1, *(1,) * (x.dim() - 2))
        if not self.training:
            deviation = torch.sqrt(self.running_var.reshape(shape) + self.epsilon)
            return self.R * ((x - self.running_mean.reshape(shape)) / deviation)
        mean, centred, variance = moments(x, axes)
        with torch.no_grad():
            for running, newest in ((self.running_mean, mean), (self.running_var, variance)):
                running.copy_((1 - self.momentum) * running + self.momentum * newest.reshape(running.shape))
        scaled = centred / over(torch.sqrt(variance + self.epsilon), x, axes)
        return over(self.R, x, range(x.dim())) * scaled


def moments(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean over some dimensions, x minus the mean, and the variance; the dimensions stay, with size 1."""
    mean = _mean(x, axes)
    centred = x - over(mean, x, axes)
    return mean, centred, _mean(centred.square(), axes)


class _Over(torch.autograd.Function):  # type: ignore[misc]
    """A tensor that has size 1 in some dimensions with the sizes of x; its gradient is summed as by `_sum`."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
        ctx.axes, ctx.shape = axes, value.shape
        return value.expand(sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _sum(gradient, ctx.axes).reshape(ctx.shape), None, None


def over(value: Tensor, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a tensor that has size 1 in some dimensions, or none, with the sizes of x.

    Its gradient is summed as moments are: torch would add up all numbers, one after another.
    """
    spread: Tensor = _Over.apply(value, tuple(x.shape), tuple(axes))
    return spread


def _mean(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the mean over some dimensions, which stay, with size 1."""
    return _sum(x, axes) / math.prod([x.shape[d] for d in axes])


def _sum(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the sum over some dimensions, which stay, with size 1.

    Sums are sums of sums of 16 numbers. In bfloat16, a sum of equal numbers, one after another, stops at 256 of them.
    """
    kept = [d for d in range(x.dim()) if d not in axes]
    sums = x.permute(*kept, *axes).flatten(len(kept)) if axes else x.unsqueeze(-1)
    while sums.shape[-1] > 1:
        sums = F.pad(sums, (0, -sums.shape[-1] % _BLOCK)).unflatten(-1, (-1, _BLOCK)).sum(-1)
    return sums.reshape([1 if d in axes else size for d, size in enumerate(x.shape)])
