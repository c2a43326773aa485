"""Compiling the modules of a trainer in place, for as long as it trains."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from numc.compiler.torch_compile.backend import backend


def compile_forward(module: torch.nn.Module) -> Callable[[], None]:
    """Let numc compute the forward pass of a module, and its gradient; return what undoes that.

    The module stays the same object with the same names in its ``state_dict``.
    """
    original = module.forward

    # torch does not compile functions of its own, such as the forward pass of a Sequential; it does if they are called.
    @functools.wraps(original)
    def forward(*args: Any, **named: Any) -> Any:
        return original(*args, **named)

    module.forward = torch.compile(forward, backend=backend())
    return functools.partial(delattr, module, "forward")


def compile_parts(module: torch.nn.Module) -> list[Callable[[], None]]:
    """Compile the modules that a module has; of those without a forward pass, such as lists, theirs."""
    undo = []
    for child in module.children():
        if isinstance(child, torch._dynamo.OptimizedModule) or child._compiled_call_impl is not None:
            continue  # the user's own choice
        if type(child).forward is torch.nn.Module.forward:
            undo += compile_parts(child)
        else:
            undo.append(compile_forward(child))
    return undo
