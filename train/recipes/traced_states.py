"""The states of optimizers, in the tensors that torch has traced graphs with."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch


class TracedStates:
    """The tensors of optimizers' states that torch has traced graphs with: a graph asks for the same tensors.

    An optimizer makes new ones in the first step of the training, as it did in that of `prepare`.
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._known: list[tuple[torch.optim.Optimizer, dict[Any, dict[str, torch.Tensor]]]] = [
            (optimizer, {}) for optimizer in optimizers
        ]

    def remember(self) -> None:
        """Keep the tensors that are in the states now."""
        for optimizer, known in self._known:
            for parameter, state in optimizer.state.items():
                tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
                known[parameter] = {**tensors, **known.get(parameter, {})}

    def put_in_place(self) -> bool:
        """Replace tensors in the states by those that are known, with their values; return whether none was missing."""
        complete = True
        for optimizer, known in self._known:
            _begin_states(optimizer, [parameter for parameter in known if not optimizer.state.get(parameter)])
            for parameter, tensors in known.items():
                state = optimizer.state.get(parameter, {})
                for name, tensor in tensors.items():
                    value = state.get(name)
                    if value is tensor:
                        continue
                    complete = False
                    if isinstance(value, torch.Tensor) and _are_alike(value, tensor):
                        state[name] = tensor.copy_(value)
        return complete


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)


def _begin_states(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter]) -> None:
    """Let an optimizer make the states of parameters that its first step would begin with, if it makes any then."""
    begin = getattr(optimizer, "_init_group", None)
    if not parameters or begin is None:
        return
    lists = len(inspect.signature(begin).parameters) - 1  # the group, and lists that it fills
    mine = {id(parameter) for parameter in parameters}
    for group in optimizer.param_groups:
        gradients = [parameter.grad for parameter in group["params"]]
        for parameter in group["params"]:  # a parameter without a gradient gets no state
            parameter.grad = torch.zeros_like(parameter) if id(parameter) in mine else None
        begin(group, *([] for _ in range(lists)))
        for parameter, gradient in zip(group["params"], gradients, strict=True):
            parameter.grad = gradient
