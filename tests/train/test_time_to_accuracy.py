"""Simulated time to accuracy: the sum of steps that are computed by hand, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import numc
from numc.train import TimeToAccuracy

CNN = Path(__file__).parents[2] / "examples" / "digits" / "cnn.onnx"


def make(**given: Any) -> TimeToAccuracy:
    return TimeToAccuracy(**{"target": 0.9, "model": CNN, "batch": 256, **given})


def test_a_run_with_one_arithmetic_and_one_whose_passes_change() -> None:
    low, high = (numc.cost(CNN, fma=f, machine="fast", training=True, batch=256) for f in ("lowbfp", "highbfp"))
    fixed, changing = make(), make()
    for _ in range(3):
        step = fixed.step("highbfp")
    assert (step.seconds, step.joules) == (high.latency, high.energy)
    assert not fixed.validate(0.5)
    assert (fixed.reached, fixed.relative_to(fixed)) == (None, None)
    assert not fixed.validate(float("nan"))
    fixed.step("highbfp")
    assert fixed.validate(0.9)
    fixed.step("highbfp")
    assert fixed.validate(0.1)  # it was reached
    assert fixed.reached is not None
    assert fixed.reached.seconds == pytest.approx(4 * high.latency)
    assert fixed.spent.seconds == pytest.approx(5 * high.latency)

    two, four = {"a": 2, "b": 2}, {"a": 4, "b": 4}
    assert changing.step({"*": two}).seconds == low.latency
    mixed = changing.step({"*": two, "*/wgrad": four}).seconds
    pairs = zip(low.costs, high.costs, strict=True)
    assert mixed == pytest.approx(sum((fine if fine.role == "wgrad" else coarse).seconds for coarse, fine in pairs))
    assert changing.step("default lowbfp; layer -1 highbfp").seconds == pytest.approx(
        # The last layer of the forward pass, and the last contraction of the backward pass.
        low.latency + sum((high.costs[n].seconds or 0) - (low.costs[n].seconds or 0) for n in (4, -1))
    )
    changing.validate(1)
    assert changing.relative_to(fixed) == pytest.approx(changing.spent.seconds / (4 * high.latency))


def test_refused() -> None:
    tta = make()
    good = {"a": 2, "b": 2}
    for action, message in (
        (lambda: make(target="high"), "target: got 'high', want a finite number"),
        (lambda: make(machine="fats"), "machine 'fats': No such file or directory (did you mean 'fast'?): want a .tom"),
        (lambda: tta.validate("1"), "validate: got '1', want the metric as a number"),
        (lambda: tta.relative_to(1), "relative_to: got int, want another TimeToAccuracy"),
        (lambda: tta.step(1), "the arithmetic of a recipe: got int, want a preset"),
        (lambda: tta.step({"node_conv": good}), "widths: unknown layer 'node_conv' (did you mean 'node_conv2d"),
        (lambda: tta.step({"node_c*": good}), "widths: none for layer 'node_linear': give those of every contraction"),
        (lambda: tta.step({"*": {"a": 2}}), "widths of '*': got {'a': 2}, want the bits of a and of b"),
        (lambda: tta.step({"*": 2}), "widths of '*': got int, want {'a': BITS, 'b': BITS}"),
        (lambda: tta.step({"*": {"a": 2, "b": 24}}), "widths of '*', b: got 24, want a whole number from 1 to 23"),
        (lambda: tta.step("mxfp8"), "machine 'fast' has no unit for the operator 'fma(a=mxfp8"),
    ):
        with pytest.raises(numc.NumcError) as caught:
            action()
        assert str(caught.value).startswith(message)
