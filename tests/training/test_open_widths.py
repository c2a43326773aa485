"""Widths of a training step: by block, by recipe, and by what the step finds of its tensors."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import numc
from numc.compiler import pipeline
from numc.passes import linalg
from numc.passes.explicit.width_slots import measures
from numc.passes.tensors.measured_first import measured_first
from numc.support.errors import NumcError
from numc.train import Static

FORMAT = "bfp(16,3,2..4)"
X, Y = torch.randn(16, 64, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 10


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@pytest.fixture(scope="module")
def compiled(net) -> Any:
    return torch.compile(net, backend=numc.backend(FORMAT))


def step(net: Any, block: Any = None) -> list[np.ndarray]:
    """The loss and the gradients of a step."""
    net.zero_grad()
    with block or contextlib.nullcontext():
        loss = nn.functional.cross_entropy(net(X), Y)
        loss.backward()
    return [loss.detach().numpy(), *(p.grad.numpy().copy() for p in net.parameters())]


def same(found: list[np.ndarray], want: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(found, want, strict=True))


def test_a_step_chooses_by_layer_role_and_operand_without_compilation(net, compiled):
    widest = step(compiled)
    before = numc.counters()
    found = step(compiled, numc.widths({"*": 3, "0/wgrad": {"a": 2}, "*/dgrad": 4}))
    assert (numc.counters().compilations, numc.counters().programs) == (before.compilations, before.programs)
    policy = 'default fma=bfp(16,3,3); layer "0/wgrad" a=bfp(16,3,2); role dgrad fma=bfp(16,3,4)'
    assert same(found, step(torch.compile(net, backend=numc.backend(policy=policy))))
    assert same(step(compiled), widest)
    assert not same(found, widest)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"1": 2}, "layer '1' has none to choose in what ran in the block"),
        ({"2/dgrd": 2}, "layer '2/dgrd' has none to choose in what ran in the block (did you mean '2/dgrad' or"),
        ({"0": 5}, "layer '0', a: got 5 significand bits, want 2 to 4"),
        ({"0": {"c": 2}}, "layer '0': operand c has none to choose: want a, b"),
    ],
)
def test_what_is_refused(compiled, given, error):
    with pytest.raises(NumcError) as caught:
        step(compiled, numc.widths(given))
    assert str(caught.value).startswith(f"widths: {error}")


def test_a_recipe_chooses(compiled):
    recipe = Static(FORMAT)
    recipe.widths = 2
    found = step(compiled, recipe)
    recipe.update()
    assert same(found, step(compiled, numc.widths(2)))
    recipe.widths = None
    assert same(step(compiled, recipe), step(compiled))


def test_a_tensor_has_one_width_in_all_its_contractions(net, compiled):
    """FAST: forward multiplies A and W, dgrad G and W, wgrad G and A; the first that reads a tensor decides."""
    w, a, g = (numc.WidthByRatio(epsilon) for epsilon in (0.0, 10.0, 10.0))
    tensors = {"2": {"a": a, "b": w}, "2/dgrad": {"a": g, "b": w}, "2/wgrad": {"a": g, "b": a}, "0*": 4}
    found = step(compiled, numc.widths(tensors))
    assert [each.width for each in (w, a, g)] == [(3, 4), (3, 2), (3, 2)]
    assert all(0 < each.ratio < 2 for each in (w, a, g))
    policy = (
        'default fma=bfp(16,3,4); layer "2" a=bfp(16,3,2); layer "2/dgrad" a=bfp(16,3,2);'
        'layer "2/wgrad" fma=bfp(16,3,2)'
    )
    assert same(found, step(torch.compile(net, backend=numc.backend(policy=policy))))
    measured = numc.WidthByRatio()  # which only measures
    assert same(step(compiled, numc.widths({"2": {"b": measured}})), step(compiled))
    assert measured.ratio == w.ratio


def _wgrad_first(module: Any) -> None:
    """Put every wgrad before the dgrad of its layer, as another order of passes could."""
    by_name = {linalg.name_of(op): op for op in linalg.operations(module, "linalg.generic") if measures(op)}
    for name, op in by_name.items():
        other = by_name.get(name.replace("/dgrad", "/wgrad"))
        if other is not None and other != op:
            other.move_before(op)


@pytest.mark.parametrize("pinned", [True, False])
def test_the_dgrad_measures_the_gradient_in_whatever_order_contractions_come(pinned, monkeypatch):
    """The groups of dgrad and of wgrad lie along different axes, so that it would show if the wgrad measured it."""
    monkeypatch.setenv("NUMC_CACHE_SIZE", "0")
    monkeypatch.setenv("NUMC_NUM_THREADS", "1")  # this process compiles
    torch.manual_seed(2)
    layers = nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 10)
    net = nn.Sequential(*layers)

    def measured(*operands: str) -> list[float | None]:
        tensors = [numc.WidthByRatio() for _ in operands]
        given = {f"2/{role}": {"a": tensor} for role, tensor in zip(operands, tensors, strict=True)}
        if len(operands) == 1:
            given = {"2/dgrad": {"a": tensors[0]}, "2/wgrad": {"a": tensors[0]}}
        step(torch.compile(net, backend=numc.backend(FORMAT)), numc.widths(given))
        return [each.ratio for each in tensors]

    dgrad, wgrad = measured("dgrad", "wgrad")
    assert dgrad != wgrad

    def permuted(module: Any, _: pipeline.State) -> None:
        _wgrad_first(module.operation)
        if pinned:
            measured_first(module.operation)

    torch._dynamo.reset()
    monkeypatch.setitem(pipeline.TO_PLAN["tensors"], "measured-first", pipeline.Pass("", permuted))
    assert measured("both") == [dgrad if pinned else wgrad]
