"""Activation-aware weight normalisation (Xie et al., TrainBF, equation 1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from numc.train.trainbf.cr_norm import EPSILON, moments, over


class RangeWeight(nn.Module):  # type: ignore[misc]
    """A parametrization: gain R (W - mean) / sqrt(variance + epsilon), with the R of the layer's input.

    The moments are those of the whole weight. The parameter that an optimizer changes stays W. The text has no gain:
    outputs would grow by R^2 sqrt(K) for K inputs. See torch.nn.utils.parametrize.register_parametrization.
    """

    gain: Tensor

    def __init__(self, R: nn.Parameter | None = None, *, epsilon: float = EPSILON) -> None:  # noqa: N803
        """Take the R of a CRNorm, or None for 1. The gain, a buffer, is 1 until `keep_spread` sets it."""
        super().__init__()
        self.R, self.epsilon = R, epsilon
        self.register_buffer("gain", torch.ones(()))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight that the layer uses, of the same shape."""
        axes = range(weight.dim())
        _, centred, variance = moments(weight, axes)
        scaled = self.gain * (centred / over(torch.sqrt(variance + self.epsilon), weight, axes))
        return scaled if self.R is None else over(self.R, weight, axes) * scaled

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def keep_spread(self, weight: Tensor) -> None:
        """Set the gain with which the result has the standard deviation of `weight`."""
        self.gain.fill_(1.0)
        now = float(self(weight).double().std(unbiased=False))
        if now > 0:
            self.gain.fill_(float(weight.double().std(unbiased=False)) / now)
