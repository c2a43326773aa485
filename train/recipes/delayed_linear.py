"""Linear layers in FP8 whose scales follow from the largest magnitudes of earlier steps (delayed scaling).

Source: NVIDIA, Transformer Engine, `DelayedScaling` in `transformer_engine/common/recipe`, and what its PyTorch modules
compute with it.
"""

from __future__ import annotations

from typing import Any

import torch

E4M3_MAX, E5M2_MAX = 448.0, 57344.0
_MAXIMA = (E4M3_MAX, E4M3_MAX, E5M2_MAX)
"""Of an input, a weight and a gradient: the columns of a history."""
_SEEN = 3
"""The column of `seen` that counts backward passes."""


class DelayedLinear(torch.nn.Linear):  # type: ignore[misc]
    """A Linear layer that quantises its input and weight to e4m3 and gradients to e5m2, each by one known scale.

    Buffers, which a checkpoint of the module has: `scale` (3), of input, weight and gradient, 1 at first, and
    `amax_history` (steps, 3), float32 both. `seen` is no state: its gradient takes the largest magnitudes of a step out
    of the backward pass.
    """

    scale: torch.Tensor
    amax_history: torch.Tensor
    seen: torch.Tensor

    @staticmethod
    def of(layer: torch.nn.Linear, steps: int) -> DelayedLinear:
        """Return a layer with the parameters of another one."""
        size = layer.in_features, layer.out_features
        made = DelayedLinear(*size, bias=layer.bias is not None, device="meta")
        made.weight, made.bias = layer.weight, layer.bias
        made.train(layer.training)
        device = layer.weight.device
        made.register_buffer("scale", torch.ones(3, device=device))
        made.register_buffer("amax_history", torch.zeros(steps, 3, device=device))
        made.register_buffer("seen", torch.zeros(4, device=device, requires_grad=True), persistent=False)
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W^T + b of rows x, (..., in_features), as float32 (..., out_features)."""
        rows = x.reshape(-1, self.in_features).float()
        product = _Product.apply(rows, self.weight.float(), self.scale, self.seen)
        result = product.reshape(*x.shape[:-1], self.out_features)
        return result if self.bias is None else result + self.bias

    def largest(self) -> tuple[torch.Tensor, int]:
        """Return the largest magnitudes since the last call, and in how many backward passes; forget them."""
        taken = self.seen.grad
        self.seen.grad = None
        return (torch.zeros(3), 0) if taken is None else (taken[:_SEEN].clone(), int(taken[_SEEN]))

    def remember(self, largest: torch.Tensor) -> None:
        """Keep magnitudes as those of this step, if they are larger than what it has seen."""
        self.amax_history[0] = torch.maximum(self.amax_history[0], largest)

    def advance(self, algorithm: str, margin: int) -> None:
        """End a step: new scales from the history, of which the oldest entry makes room for the next step.

        What the step has not seen, or only zeros of, keeps scale and history.
        """
        history = self.amax_history
        newest = history[0].clone()
        amax = history.amax(0) if algorithm == "max" else newest
        known = torch.tensor(_MAXIMA, device=history.device)
        scale = (known * 2.0**-margin) / amax
        scale = torch.where((newest != 0) & (amax > 0) & torch.isfinite(amax), scale, self.scale)
        self.scale.copy_(torch.where(torch.isinf(scale), torch.finfo(torch.float32).max, scale))
        rolled = torch.roll(history, -1, 0)
        rolled[0] = 0
        history.copy_(torch.where(newest != 0, rolled, history))


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """The product of rows and a weight in FP8; the gradient of `seen` is what a step has seen."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, seen: torch.Tensor) -> Any:
        x8, w8 = (_eight(value, scale[n], E4M3_MAX, torch.float8_e4m3fn) for n, value in enumerate((x, weight)))
        ctx.save_for_backward(x8, w8, scale, _amax(x), _amax(weight))
        inverse = 1 / scale
        return (x8.float() @ w8.float().t()) * (inverse[0] * inverse[1])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (gradient,) = gradients
        x8, w8, scale, of_x, of_weight = ctx.saved_tensors
        g8 = _eight(gradient, scale[2], E5M2_MAX, torch.float8_e5m2).float()
        inverse = 1 / scale
        dx = (g8 @ w8.float()) * (inverse[2] * inverse[1])
        dw = (g8.t() @ x8.float()) * (inverse[2] * inverse[0])
        largest = _amax(gradient)
        return dx, dw, None, torch.stack([of_x, of_weight, largest, torch.ones_like(largest)])


def _eight(value: torch.Tensor, scale: torch.Tensor, most: float, dtype: torch.dtype) -> torch.Tensor:
    """A tensor times its scale, rounded to float8; it saturates."""
    return (value * scale).clamp(-most, most).to(dtype)


def _amax(value: torch.Tensor) -> torch.Tensor:
    return value.abs().amax()
