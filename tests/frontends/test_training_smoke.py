"""A training step of a small network, in the default tier; everything else about training is in tests/training."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from zoo import SMALL  # noqa: E402

import numc  # noqa: E402


@pytest.mark.parametrize(("arithmetic", "tolerance"), [("fp32", 1e-4), ("bf16_1_2", 0.1)])
def test_a_training_step_agrees_with_eager(arithmetic: str, tolerance: float) -> None:
    case = SMALL["gcn"]
    torch.manual_seed(0)
    ours = case.model()
    eager, inputs = copy.deepcopy(ours), case.inputs()

    def step(model: Any, run: Any) -> float:
        torch.manual_seed(1)
        loss = case.loss(run(*inputs))
        loss.backward()
        return float(loss.detach())

    torch._dynamo.reset()
    with numc.verify_training(samples=2) as watched:
        loss = step(ours, torch.compile(ours, backend=numc.backend(arithmetic)))
    assert abs(loss - step(eager, eager)) < tolerance
    assert watched.report().mismatches == 0, watched.report().first
    largest = max(float(p.grad.abs().max()) for p in eager.parameters())
    for p, q in zip(ours.parameters(), eager.parameters(), strict=True):
        assert float((p.grad - q.grad).abs().max()) <= tolerance * largest
