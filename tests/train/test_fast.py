"""numc.train.Fast: FAST's algorithm 1, with the numbers that were computed by hand."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402
from numc.studies.hardware.area import step_passes  # noqa: E402
from numc.train import Fast, Static  # noqa: E402

X = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
Y = torch.arange(32) % 4


class Training:
    """A network of three layers, one of which attends; a compiled step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), Attention(16), torch.nn.Linear(32, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.2)
        self.layers = {f"model.{name}": self.model.get_submodule(name) for name in ("0", "2.query", "3")}
        self.step = torch.compile(self._step, backend=numc.backend())

    def _step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, recipe: Fast | Static, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            with recipe:
                losses.append(float(self.step(X, Y).detach()))
            recipe.update()
        return losses


class Attention(torch.nn.Module):
    """Attention among the two halves of the features of each sample."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.query = torch.nn.Linear(features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unflatten(1, (2, -1))
        return (torch.softmax(self.query(x) @ x.mT, -1) @ x).flatten(1)


@pytest.fixture(scope="module")
def training() -> Training:
    return Training()


def test_epsilon_and_the_table_of_decisions() -> None:
    recipe = Fast(100)
    places = (1, 1), (1, 50), (5, 50), (1, 100), (5, 100)
    assert [recipe.epsilon(*place, 5) for place in places] == pytest.approx([0.537, 0.39, 0.15, 0.24, 0])
    assert recipe.epsilon(5, 100, 5) == 0, "not even zeros are narrow at the end"
    recipe, ratios = Fast(4), {"W": 0.32, "A": 0.2, "G": 0.58}
    table = [
        [tuple(2 if ratios[kind] < recipe.epsilon(layer, i, 2) else 4 for kind in "WAG") for i in (1, 2, 3, 4)]
        for layer in (1, 2)
    ]
    assert table == [[(2, 2, 4), (4, 2, 4), (4, 2, 4), (4, 4, 4)], [(4, 2, 4), (4, 4, 4), (4, 4, 4), (4, 4, 4)]]
    passes = [[step_passes(*widths).total for widths in row] for row in table]
    assert passes == [[5, 8, 8, 12], [8, 12, 12, 12]]
    assert sum(map(sum, passes)) == 77


def test_every_tensor_decides_in_every_step(training: Training) -> None:
    recipe = Fast(4)
    recipe.prepare(training.step, X, Y)
    assert recipe.layers == ("model.0", "model.2.query", "model.2", "model.3")
    before, seen = numc.counters(), set()
    layers = {"model.0": 1, "model.2.query": 2, "model.2": 2, "model.3": 3}
    for step in (1, 2, 3, 4):
        weights = {name: layer.weight.detach().numpy().copy() for name, layer in training.layers.items()}
        training.run(recipe, 1)
        values, ratios = recipe.history[-1].values, recipe.ratios
        for (layer, kind), ratio in ratios.items():
            bits = 2 if ratio < 0.6 - 0.3 * step / 4 - 0.3 * layers[layer] / 3 else 4
            assert values[f"{layer} {kind}"] == bits, (step, layer, kind)
            seen.add((kind, bits))
        assert {name: ratios[name, "W"] for name in weights} == {name: ratio_of(w) for name, w in weights.items()}
        assert ratios["model.0", "A"] == ratio_of(X.numpy())
        assert {kind for layer, kind in ratios if layer == "model.2"} == {"A", "G"}
        tensors = [
            [int(values[f"{layer} {kind}"]) for kind in "WAG"] for layer in ("model.0", "model.2.query", "model.3")
        ]
        assert values["passes"] == sum(step_passes(*widths).total for widths in tensors)
    assert {("W", 2), ("A", 2), ("A", 4), ("G", 4)} <= seen
    after = numc.counters()
    assert (after.compilations, after.programs) == (before.compilations, before.programs)


def ratio_of(x: np.ndarray) -> float:
    """Return r of a matrix whose groups are along its rows."""
    narrow, wide = (numc.round(x, f"bfp(16,3,{bits})", axis=1).astype(np.float64) for bits in (2, 4))
    return float(np.abs(wide - narrow).sum() / np.abs(narrow).sum())


def test_the_bits_are_those_of_the_widths(training: Training) -> None:
    """A step in the widths that were chosen, given as numbers, draws and computes the same."""
    state = copy.deepcopy(training.model.state_dict())
    recipe = Fast(4, every=2, seed=5)
    losses = training.run(recipe, 4)
    used = [[value for name, value in d.values.items() if name != "passes"] for d in recipe.history]
    assert used[0] == used[1]
    assert used[2] == used[3]
    training.model.load_state_dict(state)
    again = Fast(4, every=2, seed=5)
    fixed = Static(str(next(iter(again.arithmetics))), seed=5)
    found = []
    for _ in range(4):
        before = copy.deepcopy(training.model.state_dict())
        training.run(again, 1)
        training.model.load_state_dict(before)
        fixed.widths = again.bits
        found += training.run(fixed, 1)
    assert found == losses


def test_a_resumed_training_decides_the_same(training: Training) -> None:
    state = copy.deepcopy(training.model.state_dict())
    whole = Fast(6, every=2)
    training.run(whole, 5)
    training.model.load_state_dict(state)
    first = Fast(6, every=2)
    training.run(first, 3)
    resumed = Fast(6, every=2)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    training.run(resumed, 2)
    assert list(resumed.history) == list(whole.history)
    with pytest.raises(numc.NumcError, match="checkpoint: its options is .* make the recipe"):
        Fast(6, every=3).load_state_dict(first.state_dict())


def test_narrow_gradients_may_be_truncated(training: Training) -> None:
    state = copy.deepcopy(training.model.state_dict())
    losses, weights = [], []
    for discard in (False, True):
        training.model.load_state_dict(state)
        recipe = Fast(1000, alpha=10, discard=discard)
        losses += training.run(recipe, 1)
        weights.append([layer.weight.detach().clone() for layer in training.layers.values()])
        assert recipe.history[-1].values["passes"] == 9, "everything is narrow"
    assert losses[0] == losses[1], "only gradients differ"
    assert not any(torch.equal(a, b) for a, b in zip(*weights, strict=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"total_steps": 0}, "Fast: total_steps: got 0, want a whole number from 1"),
        ({"alpha": float("nan")}, "Fast: alpha: got nan, want a number, such as the paper's 0.6 and 0.3"),
        ({"beta": "0.3"}, "Fast: beta: got '0.3', want a number"),
        ({"g": 0}, "Fast: g: got 0, want a whole number from 1 to 4096"),
        ({"e": 9}, "Fast: e: got 9, want a whole number from 1 to 8"),
        ({"every": 0}, "Fast: every: got 0, want a whole number from 1"),
        ({"discard": 1}, "Fast: discard: got int, want True or False"),
    ],
)
def test_bad_input_is_one_line(given: dict[str, object], message: str) -> None:
    with pytest.raises(numc.NumcError, match=message):
        Fast(**{"total_steps": 4, **given})


def test_layers_of_a_second_graph_need_prepare() -> None:
    torch.manual_seed(0)
    first, second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
    one, two = (torch.compile(module, backend=numc.backend()) for module in (first, second))
    with pytest.raises(numc.NumcError, match=r"call recipe.prepare\(step, ...\) before the training"), Fast(4):
        two(one(X)).sum().backward()
