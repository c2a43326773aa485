"""Delayed scaling: ten compiled steps are those of a plain reference, to the bit, with its histories and scales."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402

GRADIENT = {
    "hopper": "fma(a=e5m2,b=e4m3fn,acc=e8m13:rtz,datapath=fused(l=32,bits=13,least=-133),chunk=128,total=fp32)",
    "blackwell": "blackwell_e5m2_e4m3",
}
F32 = np.float32
RATE = F32(0.5)


class Reference:
    """Linear, ReLU, Linear, trained by plain numpy: float32 operations, float8 of ml_dtypes, products by numc.matmul.

    history, scale: of input, weight and gradient of each layer, as Transformer Engine's recipe updates them.
    """

    def __init__(self, weights: list[Any], unit: str, steps: int, algorithm: str, margin: int) -> None:
        self.weights, self.unit, self.algorithm, self.margin = weights, unit, algorithm, margin
        self.history = [np.zeros((steps, 3), F32) for _ in weights]
        self.scale = [np.ones(3, F32) for _ in weights]

    def quantised(self, value: Any, layer: int, n: int) -> Any:
        self.history[layer][0, n] = max(self.history[layer][0, n], np.abs(value).max())
        most, dtype = (57344, ml_dtypes.float8_e5m2) if n == 2 else (448, ml_dtypes.float8_e4m3fn)
        return np.clip(value * self.scale[layer][n], -most, most).astype(dtype).astype(F32)

    def product(self, one: Any, other: Any, fma: str, layer: int, scales: tuple[int, int]) -> Any:
        inverse = F32(1) / self.scale[layer]
        total = numc.matmul(np.ascontiguousarray(one), np.ascontiguousarray(other), fma=fma)
        return total * (inverse[scales[0]] * inverse[scales[1]])

    def step(self, x: Any, target: Any) -> Any:
        inputs, values = [], []
        for layer, weight in enumerate(self.weights):
            a, b = self.quantised(x, layer, 0), self.quantised(weight, layer, 1)
            inputs.append((x, a, b))
            values.append(self.product(a, b.T, f"{self.unit}_e4m3", layer, (0, 1)))
            x = np.maximum(values[-1], 0) if layer == 0 else values[-1]
        gradient = x - target
        for layer in (1, 0):
            _, a, b = inputs[layer]
            g = self.quantised(gradient, layer, 2)
            before = self.product(g, b, GRADIENT[self.unit], layer, (2, 1))
            self.weights[layer] = self.weights[layer] - RATE * self.product(g.T, a, GRADIENT[self.unit], layer, (2, 0))
            gradient = np.where(values[0] > 0, before, F32(0)) if layer else before
        return x

    def end(self) -> None:
        for layer, history in enumerate(self.history):
            amax = history.max(0) if self.algorithm == "max" else history[0].copy()
            for n, most in enumerate((448, 448, 57344)):
                if history[0, n] == 0:
                    continue
                if amax[n] > 0 and np.isfinite(amax[n]):
                    with np.errstate(over="ignore"):
                        scale = F32(most) * F32(2.0**-self.margin) / amax[n]
                    self.scale[layer][n] = np.finfo(F32).max if np.isinf(scale) else scale
                history[:, n] = np.roll(history[:, n], -1)
                history[0, n] = 0


def _network() -> Any:
    torch.manual_seed(0)
    parts = torch.nn.Linear(24, 40, bias=False), torch.nn.ReLU(), torch.nn.Linear(40, 8, bias=False)
    return torch.nn.Sequential(*parts)


def _data(number: int) -> tuple[Any, Any]:
    """Rows that grow and shrink from step to step."""
    random = torch.Generator().manual_seed(number)
    size = 2.0 ** ((number * 5) % 7 - 3)
    return torch.randn(6, 24, generator=random) * size, torch.randn(6, 8, generator=random) * 0.1


def _train(model: Any, recipe: Any, compiled: Any, numbers: range) -> list[Any]:
    results = []
    for number in numbers:
        x, target = _data(number)
        with recipe:
            y = compiled(x)
            y.backward(y.detach() - target)
        with torch.no_grad():
            for weight in model.parameters():
                weight -= float(RATE) * weight.grad
                weight.grad = None
        recipe.update()
        results.append(y.detach().numpy())
    return results


def _same(one: Any, other: Any) -> bool:
    return np.array_equal(np.asarray(one).view(np.uint32), np.asarray(other).view(np.uint32))


@pytest.mark.parametrize(
    ("unit", "steps", "algorithm", "margin"), [("hopper", 4, "max", 0), ("blackwell", 3, "most_recent", 1)]
)
def test_ten_steps(unit: str, steps: int, algorithm: str, margin: int) -> None:
    model = _network()
    weights = [p.detach().numpy().copy() for p in model.parameters()]
    reference = Reference(weights, unit, steps, algorithm, margin)
    recipe = numc.train.DelayedScaling(model, unit=unit, history=steps, algorithm=algorithm, margin=margin)
    results = _train(model, recipe, torch.compile(model, backend="numc", fullgraph=True), range(10))
    for number, mine in enumerate(results):
        x, target = _data(number)
        assert _same(mine, reference.step(x.numpy(), target.numpy())), number
        reference.end()
    for layer, module in enumerate((model[0], model[2])):
        assert _same(module.weight.detach(), reference.weights[layer])
        assert _same(module.scale, reference.scale[layer])
        assert _same(module.amax_history, reference.history[layer])
    assert len({float(s) for s in reference.scale[0]}) == 3


def test_a_resumed_training_goes_on_with_its_scales() -> None:
    def begin() -> tuple[Any, Any, Any]:
        torch._dynamo.reset()
        model = _network()
        recipe = numc.train.DelayedScaling(model, history=4)
        return model, recipe, torch.compile(model, backend="numc")

    whole = begin()
    want = _train(*whole, range(6))
    first = begin()
    _train(*first, range(3))
    saved, decided = first[0].state_dict(), first[1].state_dict()
    assert {"0.scale", "0.amax_history", "0.weight"} <= saved.keys()
    assert "0.seen" not in saved
    second = begin()
    second[0].load_state_dict(saved)
    second[1].load_state_dict(decided)
    assert all(map(_same, _train(*second, range(3, 6)), want[3:]))


def test_several_blocks_of_a_step_keep_the_largest() -> None:
    model = _network()
    recipe = numc.train.DelayedScaling(model, history=4)
    seen = []
    for number in (0, 3):
        x, _ = _data(number)
        seen.append(float(x.abs().max()))
        with recipe:
            model(x).sum().backward()
    recipe.update()
    assert float(model[0].scale[0]) == np.float32(448) / np.float32(max(seen))
    assert float(model[0].amax_history[-1, 0]) == np.float32(max(seen))


def test_magnitudes_that_give_no_scale_leave_the_old_one() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    recipe = numc.train.DelayedScaling(model, history=1)
    for x, want in ((torch.zeros(2, 4), 1.0), (torch.full((2, 4), 2.0), 224.0), (torch.full((2, 4), np.inf), 224.0),
                    (torch.full((2, 4), 1e-45), float(np.finfo(np.float32).max))):  # fmt: skip
        with recipe:
            model(x).sum().backward()
        recipe.update()
        assert float(model[0].scale[0]) == want


def test_a_step_that_sees_nothing_keeps_scale_and_history() -> None:
    """As Transformer Engine's update after a reduction: the history of what did not run is not rolled."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    recipe = numc.train.DelayedScaling(model, history=3)
    for size in (2.0, 1.0, 0.0, 0.0, 0.0):
        with recipe:
            model(torch.full((2, 4), size)).sum().backward()
        recipe.update()
    assert float(model[0].scale[0]) == 224
    assert model[0].amax_history[:, 0].tolist() == [0, 2, 1]
    assert model[0].amax_history[:, 2].tolist() == [0, 1, 1]


def _twice(recipe: Any, model: Any, x: Any) -> None:
    with recipe:
        (model(x).sum() + model(x).sum()).backward()


def test_what_is_refused() -> None:
    make = numc.train.DelayedScaling
    model = _network()
    for call, text in (
        (lambda: make(3), "DelayedScaling: model: got int, want a module with Linear modules inside"),
        (lambda: make(torch.nn.ReLU()), "it has no Linear modules inside: want one at least"),
        (lambda: make(torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1))),
         "module '0' is a Conv2d: scales are available for Linear only"),
        (lambda: make(model, unit="ada"), "unit: got 'ada', want hopper or blackwell"),
        (lambda: make(model, algorithm="mean"), "algorithm: got 'mean', want max or most_recent"),
        (lambda: make(model, history=0), "history: got 0, want a whole number from 1 to 1048576"),
        (lambda: make(model, margin=999), "margin: got 999, want a whole number from -126 to 126"),
    ):  # fmt: skip
        with pytest.raises(numc.NumcError) as error:
            call()
        assert text in str(error.value)
    recipe = make(model)
    x, _ = _data(0)
    with pytest.raises(numc.NumcError, match="layer '0' had 2 backward passes in a block: want one block for each"):
        _twice(recipe, model, x)
