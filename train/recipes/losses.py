"""The loss that a recipe decides from: one number in binary64, the same on all ranks."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
import torch.distributed

from numc.support.errors import NumcError, shown


def loss_of(given: Any, who: str) -> float:
    """Return a loss, a number or a tensor with one element, in binary64. Raises NumcError for anything else."""
    if isinstance(given, torch.Tensor):
        if given.numel() != 1 or given.is_complex():
            description = f"a tensor of {given.dtype} with the shape {tuple(given.shape)}"
            raise NumcError(f"{who}: loss: got {description}, want one real number")
        return float(given.detach())
    if isinstance(given, bool) or not isinstance(given, Real):
        raise NumcError(f"{who}: loss: got {shown(given)}, want a number, or a tensor with one element")
    return float(given)


def mean_over_ranks(value: float) -> float:
    """Return the mean of a number over all processes of a distributed training, to the same bits in each.

    The values are gathered and added in the order of the ranks: another way to reduce could differ between ranks.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return value
    # A backend for GPUs only takes tensors that are there.
    device = "cpu" if "gloo" in torch.distributed.get_backend() else torch.device("cuda", torch.cuda.current_device())
    own = torch.tensor([value], dtype=torch.float64, device=device)
    every = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(every, own)
    return sum(float(tensor) for tensor in every) / len(every)
