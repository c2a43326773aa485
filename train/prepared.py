"""Running a step of a training ahead of it, in every arithmetic that a recipe can choose, without a trace."""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from numc.compiler.arithmetic.policy.presets import Arithmetic
from numc.compiler.support.arguments import check_function
from numc.compiler.support.errors import NumcError
from numc.frontends.training import regions

_TWICE = 2
"""The first step of an optimizer makes its state, so that torch traces the second one again."""


def prepare(
    arithmetics: Iterable[Arithmetic], step: Callable[..., Any], batch: Sequence[Any], keep: Sequence[Any]
) -> None:
    """Run `step` in each arithmetic; see `Recipe.prepare`."""
    check_function(step, "prepare")
    if step is None:
        raise NumcError("prepare: got None, want the function that runs a step")
    kept = list(keep) or _stateful(step)
    if not kept:
        raise NumcError(
            "prepare: the step refers to no module and no optimizer: name what it changes, keep=(model, optimizer)"
        )
    for one in kept:
        if not callable(getattr(one, "state_dict", None)) or not callable(getattr(one, "load_state_dict", None)):
            raise NumcError(
                f"prepare: keep: got {type(one).__name__}, want objects with state_dict and load_state_dict"
            )
    for arithmetic in arithmetics:
        with _undone(kept), regions.arithmetic(arithmetic):
            for _ in range(_TWICE):
                step(*batch)


def _stateful(step: Callable[..., Any]) -> list[Any]:
    """Return the modules, optimizers and the like that a function names, or that those it calls name."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    left: list[Any] = [step]
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        if callable(getattr(value, "load_state_dict", None)):
            found[id(value)] = value
        elif isinstance(value, Mapping | list | tuple):
            left += value.values() if isinstance(value, Mapping) else value
        elif callable(value):
            left += _named_in(value)
    return list(found.values())


def _named_in(function: Any) -> list[Any]:
    """Return the values of the names of a function's text, and what its object has; not those of torch's functions."""
    function = inspect.unwrap(getattr(function, "_torchdynamo_orig_callable", function))
    owner = getattr(function, "__self__", None)
    values = [owner, *getattr(owner, "__dict__", {}).values()]
    plain = getattr(function, "__func__", function)
    if inspect.isfunction(plain) and not str(plain.__module__).startswith(("torch.", "numpy.")):
        named = inspect.getclosurevars(plain)
        values += [*named.nonlocals.values(), *named.globals.values()]
    return values


@contextlib.contextmanager
def _undone(kept: Sequence[Any]) -> Iterator[None]:
    """Put back what a block changes: objects, gradients, and the states of random number generators."""
    generators = torch.get_rng_state(), np.random.get_state(), random.getstate()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    undo = [_restorer(one) for one in kept]
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
