"""Modules of PyTorch that several tests compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


class Calls(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
