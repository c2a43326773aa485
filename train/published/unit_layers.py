"""Layers whose outputs and gradients have the variance 1 at the start of a training (Blake et al., 2023).

A factor of the forward pass and one of the backward pass are not the same number, so that both are written down: the
gradient that a layer passes on is then the true one times a constant, which is allowed where all paths to the loss have
it, and for the gradients of parameters, whose size is the optimizer's.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class _Factors(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, ahead: float, back: float) -> Tensor:
        ctx.back = back
        return x * ahead

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0] * ctx.back, None, None


def times(x: Tensor, ahead: float, back: float) -> Tensor:
    """Return a tensor times a factor, whose gradient is multiplied by another one."""
    return x if ahead == back == 1 else _Factors.apply(x, ahead, back)


class Scales:
    """The factors of a product: of its result, of the gradient of its input, and of the gradient of its weight.

    fan_in, fan_out: products in a sum of the forward pass and of the dgrad. rule: "unit" has the geometric mean of the
    first two in both places, "u-mup" that of the result, as a network that is more than one path needs them to be one
    number. readout: of the last layer in "u-mup", whose result is smaller and which ends the path.
    """

    def __init__(self, fan_in: float, fan_out: float, rule: str, readout: bool) -> None:
        self.ahead, self.back = 1 / math.sqrt(fan_in), 1 / math.sqrt(fan_out)
        if rule == "u-mup" and readout:
            self.ahead = 1 / fan_in
        elif rule == "u-mup":
            self.back = self.ahead
        else:
            self.ahead = self.back = math.sqrt(self.ahead * self.back)

    @staticmethod
    def of_weight(count: int) -> float:
        """Return the factor of the gradient of a weight that is the sum of so many products."""
        return 1 / math.sqrt(count)


class UnitLinear(nn.Linear):  # type: ignore[misc]
    """A Linear layer with weights of variance 1."""

    scales: Scales

    @staticmethod
    def of(layer: nn.Linear, rule: str, readout: bool) -> UnitLinear:
        """Return a layer of the size of another one, with new random weights and biases of 0."""
        made = UnitLinear(layer.in_features, layer.out_features, layer.bias is not None)
        made.scales = Scales(layer.in_features, layer.out_features, rule, readout)
        begin(made, layer)
        return made

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b for x (..., in_features), the product times its factor."""
        own = Scales.of_weight(x.numel() // self.in_features)
        product = times(F.linear(times(x, 1, self.scales.back), times(self.weight, 1, own)), self.scales.ahead, 1)
        return product if self.bias is None else product + times(self.bias, 1, own)


class UnitConv2d(nn.Conv2d):  # type: ignore[misc]
    """A convolution with weights of variance 1, of one group."""

    scales: Scales

    @staticmethod
    def of(layer: nn.Conv2d, rule: str) -> UnitConv2d:
        """Return a layer of the size of another one, with new random weights and biases of 0."""
        made = UnitConv2d(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,
            stride=layer.stride,
            padding=layer.padding,
            dilation=layer.dilation,
            bias=layer.bias is not None,
        )
        window, steps = math.prod(layer.kernel_size), math.prod(layer.stride)
        made.scales = Scales(layer.in_channels * window, layer.out_channels * window / steps, rule, False)
        begin(made, layer)
        return made

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x (n, channels, h, w), times its factor."""
        sizes = (self.stride, self.padding, self.dilation)
        places = [
            (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, pad, dilation in zip(x.shape[2:], self.kernel_size, *sizes, strict=True)
        ]
        own = Scales.of_weight(x.shape[0] * math.prod(places))
        weight = times(self.weight, 1, own)
        product = times(F.conv2d(times(x, 1, self.scales.back), weight, None, *sizes), self.scales.ahead, 1)
        return product if self.bias is None else product + times(self.bias, 1, own)[:, None, None]


_RELU = (2 / (1 - 1 / math.pi)) ** 0.5, 2**0.5
"""One over the standard deviation of max(x, 0) and of its gradient, x normal."""


class UnitReLU(nn.Module):  # type: ignore[misc]
    """max(x, 0) times a factor."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        ahead, back = _RELU
        self._factors = (ahead, ahead) if rule == "u-mup" else (math.sqrt(ahead * back),) * 2

    def forward(self, x: Tensor) -> Tensor:
        """Return max(x, 0) times a factor."""
        ahead, back = self._factors
        return times(F.relu(times(x, 1, back)), ahead, 1)


def begin(layer: UnitLinear | UnitConv2d, of: nn.Module) -> None:
    """Give a layer weights of variance 1 and biases of 0, and the device, type and mode of another one."""
    with torch.no_grad():
        layer.weight.normal_()
        if layer.bias is not None:
            layer.bias.zero_()
    layer.to(device=of.weight.device, dtype=of.weight.dtype)
    layer.train(of.training)
