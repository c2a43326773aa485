"""The digits train in several arithmetics as well as in eager torch, and in fp32 along the same curve."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

import numc  # noqa: E402
from tiers import one_in  # noqa: E402

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "heldout.npz"
TRAINED = 240


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


@cache
def data() -> tuple[Any, Any]:
    found = np.load(DIGITS)
    return torch.from_numpy(found["images"]), torch.from_numpy(found["labels"])


def fit(model: nn.Module, steps: int, compiled: Callable[..., Any]) -> list[float]:
    """Train on mini-batches of 48 of the first images; return the losses."""
    images, labels = data()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = compiled(step)
    torch.manual_seed(1)
    losses = []
    while len(losses) < steps:
        for batch in torch.randperm(TRAINED).split(48):
            losses.append(float(step(images[batch], labels[batch])))
    return losses


def accuracy(model: nn.Module) -> float:
    images, labels = data()
    with torch.no_grad():
        return float((model.eval()(images[TRAINED:]).argmax(1) == labels[TRAINED:]).float().mean())


@cache
def start(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


@cache
def eager(make: Callable[[], nn.Module], steps: int) -> tuple[list[float], float]:
    model = copy.deepcopy(start(make))
    losses = fit(model, steps, lambda step: step)
    return losses, accuracy(model)


@pytest.mark.parametrize(
    ("arithmetic", "make"),
    one_in(8, itertools.product(["fp32", "mp", "bf16_1_2", "bf16_2_2{3}"], [mlp, cnn]), ("mp", mlp)),
)
def test_training_is_as_good_as_eager(make: Callable[[], nn.Module], arithmetic: str) -> None:
    torch._dynamo.reset()
    model = copy.deepcopy(start(make))
    losses = fit(model, 150, torch.compile(backend=numc.backend(arithmetic)))
    want, right = eager(make, 150)
    assert right > 0.85
    assert accuracy(model) >= right - 0.01
    if arithmetic == "fp32":
        np.testing.assert_allclose(losses[:50], want[:50], atol=1e-5)
    else:
        assert losses[:50] != want[:50]
