"""Models that several threads compile at once, of which torch traces one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402

THREADS = 4


class Scaled(torch.nn.Module):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1).view(-1) * self.factor + x.shape[0]


def ahead(module: torch.nn.Module, x: torch.Tensor) -> Any:
    return numc.compile(module, (x,), dynamic_shapes=({0: torch.export.Dim("rows", max=8)},))(x)


def just_in_time(module: torch.nn.Module, x: torch.Tensor) -> Any:
    return torch.compile(module, backend=numc.backend("fp32"))(x)


@pytest.mark.all
@pytest.mark.parametrize("ways", [[ahead], [just_in_time], [ahead, just_in_time]], ids=["ahead", "jit", "both"])
def test_threads_compile_at_once(ways: list[Callable[[torch.nn.Module, torch.Tensor], Any]]) -> None:
    torch._dynamo.reset()
    start = threading.Barrier(THREADS)

    def one(number: int) -> None:
        module, x = Scaled(number), torch.randn(2 + number, 5)
        start.wait(60)
        torch.testing.assert_close(ways[number % len(ways)](module, x), module(x))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, range(THREADS)))
