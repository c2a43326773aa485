"""Running steps of a training without a trace: modules, optimizers and random number generators are put back."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch


@contextlib.contextmanager
def undone(kept: Sequence[Any]) -> Iterator[None]:
    """Put back what a block changes: objects, gradients, and the states of random number generators."""
    generators = torch.get_rng_state(), np.random.get_state(), random.getstate()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    undo = [_restorer(holder) for holder in kept]
    try:
        yield
    finally:
        for each in undo:
            each()
        torch.set_rng_state(generators[0])
        np.random.set_state(generators[1])
        random.setstate(generators[2])
        if gpus:
            torch.cuda.set_rng_state_all(gpus)


def _restorer(one: Any) -> Callable[[], None]:
    """Return a function that puts an object back.

    Tensors keep their storage, because graphs that torch has traced ask for the same tensors.
    """
    if isinstance(one, torch.nn.Module):
        return _module_restorer(one)
    if isinstance(one, torch.optim.Optimizer):
        return _optimizer_restorer(one)
    before = copy.deepcopy(one.state_dict())
    return lambda: one.load_state_dict(before)


def _module_restorer(module: torch.nn.Module) -> Callable[[], None]:
    tensors = [*module.parameters(), *module.buffers()]
    values = [tensor.detach().clone() for tensor in tensors]
    gradients = [None if t.grad is None else t.grad.detach().clone() for t in tensors]
    modes = [(each, each.training) for each in module.modules()]

    def restore() -> None:
        with torch.no_grad():
            for tensor, value, gradient in zip(tensors, values, gradients, strict=True):
                tensor.copy_(value)
                if gradient is not None and tensor.grad is not None:
                    tensor.grad.copy_(gradient)
                else:
                    tensor.grad = gradient
        for each, mode in modes:
            each.training = mode

    return restore


def _optimizer_restorer(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    groups = [{name: copy.copy(v) for name, v in group.items() if name != "params"} for group in optimizer.param_groups]
    states = {parameter: _copied(state) for parameter, state in optimizer.state.items()}

    def restore() -> None:
        for group, before in zip(optimizer.param_groups, groups, strict=True):
            group.update(before)
        for parameter in list(optimizer.state):
            if parameter not in states:
                del optimizer.state[parameter]
                continue
            state = optimizer.state[parameter]
            for name in list(state):
                value = states[parameter].get(name)
                if isinstance(value, torch.Tensor) and isinstance(state[name], torch.Tensor):
                    state[name].copy_(value)
                elif name in states[parameter]:
                    state[name] = value
                else:
                    del state[name]

    return restore


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.detach().clone() if isinstance(v, torch.Tensor) else copy.deepcopy(v) for n, v in state.items()}
