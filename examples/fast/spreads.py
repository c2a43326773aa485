"""The exponents of weights, activations and gradients at half of a training (figures 6 and 7 of FAST)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from exponents import FAR, GROUPS, differences
from tasks import Digits
from torch import Tensor, nn

KINDS = ("weights", "activations", "gradients")


def spreads(task: Digits, seed: int = 0) -> Mapping[str, tuple[np.ndarray, dict[int, np.ndarray]]]:
    """Train in eager fp32 up to the middle; return for each kind exponents, and shares by distance for each group size.

    Exponents: floor(log2) of all values other than zero. Distances: of these from the largest one in the group, 0 to
    FAR; groups lie along the reduction axis of the contraction of the forward pass that reads weights or activations,
    and of the one that gives the gradient of the activations.
    """
    torch.manual_seed(seed)
    model = task.model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=task.rate, momentum=task.momentum)
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for number, (x, y) in enumerate(islice(task.batches(seed), task.steps // 2 + 1)):
        hooks = [hook for layer in _layers(model) for hook in _watch(layer, found)] if number == task.steps // 2 else []
        optimizer.zero_grad()
        F.cross_entropy(model(x.requires_grad_()), y).backward()  # hooks want the gradient of x
        optimizer.step()
        for hook in hooks:
            hook.remove()
    return {
        kind: (
            np.concatenate([np.frexp(rows[rows != 0])[1] - 1 for rows in matrices]),
            {g: _distances(matrices, g) for g in GROUPS},
        )
        for kind, matrices in found.items()
    }


def _layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]


def _watch(layer: nn.Module, found: Mapping[str, list[np.ndarray]]) -> list[torch.utils.hooks.RemovableHandle]:
    """Keep what a layer reads and what it gets back as matrices whose rows are reduced."""

    def forward(module: nn.Module, inputs: tuple[Tensor, ...], _: object) -> None:
        found["weights"].append(module.weight.detach().flatten(1).numpy().copy())
        found["activations"].append(_windows(module, inputs[0].detach()))

    def backward(module: nn.Module, _: object, gradients: tuple[Tensor, ...]) -> None:
        values = gradients[0].detach()
        found["gradients"].append(values.transpose(1, -1).flatten(0, -2).numpy().copy())

    return [layer.register_forward_hook(forward), layer.register_full_backward_hook(backward)]


def _windows(layer: nn.Module, x: Tensor) -> np.ndarray:
    if isinstance(layer, nn.Linear):
        return x.flatten(0, -2).numpy()
    columns = F.unfold(x, layer.kernel_size, padding=layer.padding, stride=layer.stride)
    return columns.transpose(1, 2).flatten(0, 1).numpy()


def _distances(matrices: list[np.ndarray], group: int) -> np.ndarray:
    below = np.concatenate([differences(rows, group) for rows in matrices])
    return np.bincount(np.minimum(below, FAR), minlength=FAR + 1) / below.size
