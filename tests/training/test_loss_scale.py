"""The loss scale: Backoff, its bounds, and a checkpoint in the middle."""

from __future__ import annotations

import json
import math

import pytest

import numc
from numc.support.errors import NumcError

torch = pytest.importorskip("torch")


def scales(scaler: numc.DynamicLossScale, flags: str) -> list[float]:
    """The scales after updates; 1 stands for a gradient that overflows."""
    weight = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    found = []
    for flag in flags:
        weight.grad = None
        scaler.scale(weight * (math.inf if flag == "1" else 0.5)).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(scaler.get_scale())
    return found


def test_backoff() -> None:
    assert scales(numc.DynamicLossScale(8, growth_interval=3), "00010000") == [8, 8, 16, 8, 8, 8, 16, 16]
    assert scales(numc.DynamicLossScale(4, max_scale=6, growth_interval=1), "0001111") == [6, 6, 6, 3, 1.5, 1, 1]
    assert numc.DynamicLossScale(2**24).get_scale() == 2**24


def test_a_checkpoint_has_the_counts_too() -> None:
    whole, first = (numc.DynamicLossScale(8, growth_interval=3) for _ in range(2))
    assert scales(first, "001") == scales(whole, "001")
    second = numc.DynamicLossScale(8, growth_interval=3)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert (second.steps, second.skipped) == (3, 1)
    assert scales(second, "10000") == scales(whole, "10000")
    assert (second.steps, second.skipped) == (whole.steps, whole.skipped) == (8, 2)
    second.load_state_dict(torch.amp.GradScaler("cpu", init_scale=4.0).state_dict())
    assert (second.get_scale(), second.steps, second.skipped) == (4, 0, 0)


def test_at_the_least_scale_an_overflow_still_counts_as_skipped() -> None:
    scaler = numc.DynamicLossScale(1)
    assert scales(scaler, "11") == [1, 1]
    assert (scaler.steps, scaler.skipped) == (2, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: numc.DynamicLossScale(2**25), "init_scale: got 3.35544e\\+07, want 1 to 1.67772e\\+07: change"),
        (lambda: numc.DynamicLossScale(min_scale=0), "min_scale: got 0, want a positive number"),
        (lambda: numc.DynamicLossScale(max_scale="x"), "max_scale: got 'x', want a positive number"),
        (lambda: numc.DynamicLossScale().load_state_dict(3), "DynamicLossScale: checkpoint: got int, want what state"),
        (
            lambda: numc.DynamicLossScale().load_state_dict({"scale": 1.0}),
            "checkpoint: there is no '_growth_tracker', want",
        ),
        (
            lambda: numc.DynamicLossScale().load_state_dict({"steps": -1}),
            "checkpoint: steps: got -1, want a whole number",
        ),
    ],
)
def test_texts_of_errors(call, text) -> None:
    with pytest.raises(NumcError, match=text):
        call()
