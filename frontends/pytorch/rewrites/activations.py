"""Activation functions that torch-mlir or torch's own decompositions compute otherwise than eager torch."""

from __future__ import annotations

import math
from typing import Any

import torch


def leaky_relu(value: torch.Tensor, negative_slope: float = 0.01) -> torch.Tensor:
    """aten.leaky_relu, not as a sum, which loses the sign of zeros."""
    return torch.where(value > 0, value, value * negative_slope)


def relu6(value: torch.Tensor) -> torch.Tensor:
    """aten.relu6, whose zeros keep their sign."""
    return value.clamp(0, 6)


def rrelu(
    value: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """aten.rrelu_with_noise_functional outside of training, where it draws nothing."""
    if training:
        return NotImplemented
    return leaky_relu(value, (lower + upper) / 2), noise


def threshold(value: torch.Tensor, threshold: Any, number: Any) -> torch.Tensor:
    """aten.threshold, which leaves NaN as it is, and takes the numbers as integers if the elements are."""
    if not value.is_floating_point():
        threshold, number = int(threshold), int(number)
    return torch.where(value <= threshold, torch.full((), number, dtype=value.dtype), value)


def gelu(value: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """aten.gelu by tanh, for which torch-mlir has a factor of three digits."""
    if approximate != "tanh":
        return NotImplemented
    inner = math.sqrt(2 / math.pi) * (value + 0.044715 * (value * value * value))
    return 0.5 * value * (1 + inner.tanh())


def softshrink(value: torch.Tensor, lambd: Any = 0.5) -> torch.Tensor:
    """aten.softshrink, with +0 between the limits, as the vector loops of eager torch have it."""
    below = torch.where(value < -lambd, value + lambd, torch.where(value.isnan(), value, 0.0))
    return torch.where(value > lambd, value - lambd, below)


def hardshrink(value: torch.Tensor, lambd: Any = 0.5) -> torch.Tensor:
    """aten.hardshrink, which leaves NaN as it is."""
    limit = _limit(lambd, value)
    return torch.where((value >= -limit) & (value <= limit), 0.0, value)


def shrink_backward(grad: torch.Tensor, value: torch.Tensor, lambd: Any) -> torch.Tensor:
    """aten.softshrink_backward and aten.hardshrink_backward; at NaN it is 0, as in the vector loops of eager torch."""
    limit = _limit(lambd, value)
    return torch.where((value < -limit) | (value > limit), grad, 0.0)


def _limit(number: Any, value: torch.Tensor) -> torch.Tensor:
    """Return a limit, which eager torch rounds to the dtype of the elements before it compares."""
    return torch.full((), number, dtype=value.dtype)
