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
    return torch.where(_wide(value) <= threshold, torch.full((), number, dtype=value.dtype), value)


def threshold_backward(grad: torch.Tensor, value: torch.Tensor, threshold: Any) -> torch.Tensor:
    """aten.threshold_backward, whose threshold eager torch does not round to a narrow dtype."""
    value = _wide(value) if threshold else value  # which every dtype has
    return torch.where(value <= threshold, 0, grad)


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


# The gradients below are, at NaN, those of the vector loops of eager torch; its loops of single elements take another
# branch there.


def elu_backward(
    grad: torch.Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, value: torch.Tensor
) -> torch.Tensor:
    """aten.elu_backward."""
    grad, value = _wide(grad), _wide(value)
    slope, steep = input_scale, alpha * scale
    below = grad * slope * (value + steep) if is_result else grad * slope * steep * (value * slope).exp()
    return torch.where(value > 0, grad * scale, below)


def hardswish_backward(grad: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """aten.hardswish_backward."""
    between = torch.where(value >= 3, grad, grad * (value / 3 + 0.5))
    return torch.where(value <= -3, 0.0, between)


def hardtanh_backward(grad: torch.Tensor, value: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
    """aten.hardtanh_backward."""
    return torch.where((value > low) & (value < high), grad, 0.0)


def smooth_l1_loss_backward(
    grad: torch.Tensor, value: torch.Tensor, target: torch.Tensor, reduction: int, beta: float
) -> torch.Tensor:
    """aten.smooth_l1_loss_backward."""
    difference = value - target
    scaled_grad = grad / value.numel() if reduction == 1 else grad
    near = difference / beta if beta > 0 else difference * 0
    return scaled_grad * torch.where(difference.abs() >= beta, difference.sign(), near)


def rrelu_backward(
    grad: torch.Tensor, value: torch.Tensor, noise: torch.Tensor, lower: Any, upper: Any, training: bool, result: bool
) -> torch.Tensor:
    """aten.rrelu_with_noise_backward, of which torch-mlir makes something else."""
    if training and upper - lower > 1e-6:
        return grad * noise
    return torch.where(value > 0, grad, grad * ((lower + upper) / 2))


def sigmoid_backward(grad: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """aten.sigmoid_backward, of which eager torch rounds each operation in float16, but not in bfloat16."""
    if result.dtype == torch.bfloat16:
        return (grad.float() * (1 - result.float()) * result.float()).to(result.dtype)
    return grad * (1 - result) * result


def glu_backward(grad: torch.Tensor, value: torch.Tensor, dim: int) -> torch.Tensor:
    """aten.glu_backward, which rounds the sigmoid."""
    half = value.shape[dim] // 2
    factor, gate = value.narrow(dim, 0, half), value.narrow(dim, half, half).sigmoid()
    wide = _wide(gate)
    of_gate = (1 - wide) * wide * _wide(factor) * _wide(grad)
    return torch.cat([gate * grad, of_gate.to(value.dtype)], dim)


def logit(value: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    """aten.logit, of which eager torch rounds each operation, and the limits, in every dtype."""
    value = value if value.is_floating_point() else value.to(torch.get_default_dtype())
    if eps is not None and eps >= 0:
        low, high = _limits(eps, value)
        value = torch.where(value < low, low, torch.where(value > high, high, value))
    return (value / (1 - value)).log()


def logit_backward(grad: torch.Tensor, value: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    """aten.logit_backward, likewise."""
    slope = grad / (value * (1 - value))
    if eps is None or eps < 0:
        return torch.where((value < 0) | (value > 1), float("nan"), slope)
    low, high = _limits(eps, value)
    return torch.where((value >= low) & (value <= high), slope, 0.0)


def _limits(eps: float, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    low = _limit(eps, value)
    return low, 1 - low


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
