"""Running a step of a training ahead of it, in every arithmetic that a recipe can choose, without a trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from numc.compiler.torch_compile import regions
from numc.numerics.policy.presets import Arithmetic
from numc.support.arguments import check_function
from numc.support.errors import NumcError
from numc.train.recipes.traced_states import TracedStates
from numc.train.recipes.undone import undone

_TWICE = 2
"""The first step of an optimizer makes its state, so that torch traces the second one again."""


def prepare(
    arithmetics: Iterable[Arithmetic], step: Callable[..., Any], batch: Sequence[Any], keep: Sequence[Any]
) -> TracedStates:
    """Run `step` in each arithmetic; see `Recipe.prepare`. Returns what the first steps of the training need."""
    check_function(step, "prepare")
    if step is None:
        raise NumcError("prepare: got None, want the function that runs a step")
    kept = list(keep) or stateful(step)
    if not kept:
        raise NumcError(
            "prepare: the step refers to no module and no optimizer: name what it changes, keep=(model, optimizer)"
        )
    for holder in kept:
        if not callable(getattr(holder, "state_dict", None)) or not callable(getattr(holder, "load_state_dict", None)):
            raise NumcError(
                f"prepare: keep: got {type(holder).__name__}, want objects with state_dict and load_state_dict"
            )
    states = TracedStates([holder for holder in kept if isinstance(holder, torch.optim.Optimizer)])
    for arithmetic in arithmetics:
        with undone(kept), regions.arithmetic(arithmetic):
            for _ in range(_TWICE):
                states.put_in_place()
                step(*batch)
                states.put_in_place()
            states.remember()
    return states


def stateful(step: Callable[..., Any]) -> list[Any]:
    """Return the modules, optimizers and the like that a function names, or that those it calls name."""
    holders: dict[int, Any] = {}
    seen: set[int] = set()
    left: list[Any] = [step]
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        if callable(getattr(value, "load_state_dict", None)):
            holders[id(value)] = value
        elif isinstance(value, Mapping | list | tuple):
            left += value.values() if isinstance(value, Mapping) else value
        elif callable(value):
            left += _named_in(value)
    return list(holders.values())


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
