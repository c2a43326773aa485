"""Training of models with narrow tensors, and under torch.autocast."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import numc

X, LABELS = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4


def network() -> nn.Module:
    torch.manual_seed(0)
    head = nn.MaxPool2d(2), nn.Flatten(), nn.LayerNorm(36), nn.Dropout(0.1), nn.Linear(36, 16), nn.GELU()
    return nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), *head, nn.Linear(16, 4))


def step(model: nn.Module, kind: str, backend: Any = None) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the loss and the gradients of one step; kind: "autocast DTYPE", or the dtype of the model."""
    torch._dynamo.reset()
    auto, _, name = kind.rpartition(" ")
    dtype = getattr(torch, name)
    model = model if auto else model.to(dtype)
    x = X if auto else X.to(dtype)

    def loss(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype, enabled=bool(auto)):
            return functional.cross_entropy(model(x), LABELS)

    scaler = torch.amp.GradScaler("cpu", enabled=kind == "autocast float16", init_scale=256.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    found = (torch.compile(loss, backend=backend) if backend else loss)(x)
    scaler.scale(found).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return found, [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize(
    "kind",
    [
        "bfloat16",
        pytest.param("float16", marks=pytest.mark.slow),
        pytest.param("autocast bfloat16", marks=pytest.mark.slow),
        pytest.param("autocast float16", marks=pytest.mark.slow),
    ],
)
def test_gradients_are_as_exact_as_in_eager_torch(kind: str) -> None:
    exact, eager = step(network(), "float64"), step(network(), kind)
    backend = numc.backend()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="numc")  # no tensor is left to torch
        got = step(network(), kind, backend)
    assert {r.op for r in backend.refused} == {"aten.bernoulli.p"}
    assert got[0].dtype == eager[0].dtype
    for x, y, r in zip(got[1], eager[1], exact[1], strict=True):
        assert x.dtype == y.dtype
        assert (x - r).norm() < 1.5 * (y - r).norm() + 1e-3 * r.norm()
    coarse = step(network(), kind, numc.backend("bf16_1_1"))
    assert not all(torch.equal(x, y) for x, y in zip(coarse[1], got[1], strict=True))


def test_an_optimizer_updates_weights_of_bfloat16() -> None:
    """The update is rounded when it is stored: a small one is lost, as in eager torch."""
    weights = []
    for backend in (None, numc.backend()):
        torch._dynamo.reset()
        model = nn.Linear(4, 3).bfloat16()
        nn.init.constant_(model.weight, 1.0)
        nn.init.zeros_(model.bias)
        optimizer = torch.optim.SGD(model.parameters(), lr=2**-6)

        def train(x: Any, model: Any = model, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        x = torch.tensor([[1.0, 0.125, 0.5, 2.0]]).bfloat16()
        (torch.compile(train, backend=backend) if backend else train)(x)
        weights.append(model.weight.detach())
        assert model.weight.dtype == torch.bfloat16
    assert torch.equal(*weights)
    assert weights[0][0].tolist() == [1 - 2**-6, 1.0, 1 - 2**-7, 1 - 2**-5]


def test_dtypes_that_are_not_respected() -> None:
    model, x = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)).bfloat16(), torch.randn(5, 16).bfloat16()
    with torch.no_grad():
        want = torch.compile(lambda x: model(x), backend=numc.backend())(x)
        ignored = torch.compile(lambda x: model(x), backend=numc.backend(respect_dtypes=False))(x)
        by_name = torch.compile(lambda x: model(x), backend="numc", options={"respect_dtypes": False})(x)
        exact = numc.compile(model.float(), (x.float(),))(x.float())
    assert torch.equal(ignored, exact.bfloat16())
    assert torch.equal(ignored, by_name)
    assert not torch.equal(ignored, want)
    with pytest.raises(numc.NumcError, match="^respect_dtypes: got str, want True or False$"):
        numc.backend(respect_dtypes="no")  # type: ignore[arg-type]
