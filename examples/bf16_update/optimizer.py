"""SGD with momentum whose update is two multiply-adds, and the same with Kahan's compensation of its roundings."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class Sgd(torch.optim.Optimizer):
    """SGD with momentum: m = g + momentum m, w = w - rate m, each one multiply-add of the role `update`.

    kahan: w takes y = -rate m - lost, and lost = (w' - w) - y is what the rounding of w' has added (Zamirai et al.,
    "Revisiting BFloat16 Training", 2020, algorithm 3): every operation is of the role `update`, too.
    """

    def __init__(self, weights: Iterable[Tensor], *, rate: float, momentum: float, kahan: bool) -> None:
        super().__init__(weights, {"rate": rate, "momentum": momentum})
        self._kahan = kahan
        for weight in self.param_groups[0]["params"]:
            self.state[weight] = {name: torch.zeros_like(weight) for name in ("momentum", "lost")}

    def clear(self) -> None:
        """Begin anew: no momentum, nothing lost."""
        for tensors in self.state.values():
            for tensor in tensors.values():
                tensor.zero_()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Change all weights by their gradients."""
        (group,) = self.param_groups
        for weight in group["params"]:
            momentum, lost = self.state[weight]["momentum"], self.state[weight]["lost"]
            momentum.copy_(torch.add(weight.grad, momentum, alpha=group["momentum"]))
            if not self._kahan:
                weight.add_(momentum, alpha=-group["rate"])
                continue
            change = torch.add(lost.neg(), momentum, alpha=-group["rate"])
            after = weight + change
            lost.copy_((after - weight) - change)
            weight.copy_(after)
