"""Tensors that are cut and put together along several dimensions: every element is moved once, to where it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import numc


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (lambda x: torch.roll(x, (-3, 2), (1, 2)), 4),
        (lambda x: torch.roll(x, (1, -1, 3), (0, 1, 2)), 8),
        (lambda x: torch.cat([torch.cat([x, 2 * x], 1)[:, 3:9], x[:, :6]], 0), 3),
    ],
    ids=["two dimensions", "three dimensions", "a part of a concatenation"],
)
def test_every_element_is_moved_once(function: Callable[[Tensor], Tensor], copies: int) -> None:
    x = torch.randn(3, 7, 5)
    program = numc.compile(Function(function), (x,))
    assert np.array_equal(program(x.numpy()), function(x).numpy())
    assert sum(part["kind"] == "copy" for part in program.manifest["parts"]) == copies
