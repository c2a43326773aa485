"""The techniques of TrainBF, with the values that were computed by hand, and the recipe around a small network."""

from __future__ import annotations

import copy
import io
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

import numc  # noqa: E402
from numc.train import CRNorm, RangeLossScale, TrainBF, layer_errors  # noqa: E402
from numc.train.trainbf.cr_norm import over  # noqa: E402
from numc.train.trainbf.layers import normalise  # noqa: E402
from numc.train.trainbf.modifier import modify, selectable  # noqa: E402

X, Y = torch.linspace(-2, 2, 24 * 8).reshape(24, 8).sin() + 4, torch.arange(24) % 4


@pytest.fixture(autouse=True)
def _traced_anew() -> None:
    torch._dynamo.reset()


# E1: the norm.


def test_the_norm_and_the_step_of_its_range() -> None:
    """A = (1, 2, 3, 6) has the mean 3 and the variance 7/2, so that O^2 = R^2 (A - 3)^2 2/7."""
    norm = CRNorm(epsilon=0.0).double()
    with torch.no_grad():
        norm.R.fill_(2)
    a = torch.tensor([1.0, 2, 3, 6], dtype=torch.float64)
    o = norm(a)
    assert [f"{v:.6f}" for v in o.tolist()] == ["-2.138090", "-1.069045", "0.000000", "3.207135"]
    for value, centred in zip(o.tolist(), (-2, -1, 0, 3), strict=True):
        assert abs(Fraction(value) ** 2 - Fraction(4 * centred**2 * 2, 7)) < Fraction(1, 10**14)
    g = torch.tensor([0.1, -0.2, 0.3, 0.1], dtype=torch.float64)
    ((g * o).sum() - 0.05 * norm.R).backward()
    assert f"{float(norm.R.detach() - 0.1 * norm.R.grad):.6f}" == "1.988964"


def test_a_norm_by_channel_is_a_batch_norm_times_its_range() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 3, 7, 2, dtype=torch.float64) * 2 + 16
    norm, batch_norm = CRNorm(3).double(), nn.BatchNorm2d(3, affine=False).double()
    with torch.no_grad():
        norm.R.fill_(1.5)
    torch.testing.assert_close(norm(x), 1.5 * batch_norm(x))
    torch.testing.assert_close(norm.running_mean, batch_norm.running_mean)
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * x.var((0, 2, 3), unbiased=False))
    norm.eval()
    want = (x - norm.running_mean[:, None, None]) / (norm.running_var[:, None, None] + 1e-5).sqrt()
    torch.testing.assert_close(norm(x), 1.5 * want)


def test_moments_in_bfloat16_are_those_of_all_numbers() -> None:
    """One after another, 4,000 numbers near 16 add up to 4096 in bfloat16: their mean would be 1."""
    norm, x = CRNorm(), torch.linspace(15, 17, 4000).reshape(4, 1000)
    torch.compile(norm, backend=numc.backend("bf16_1_1", ops="bf16"))(x)
    assert abs(float(norm.running_mean) - 1.6) < 0.01


# E2: the weights.


def test_gradients_of_moments_and_ranges_are_sums_of_sums() -> None:
    """One after another, 4,096 ones are 256 in bfloat16, as torch would add them up for the gradient of one number."""
    x, R = torch.ones(64, 64), torch.ones((), requires_grad=True)  # noqa: N806
    backend = numc.backend("bf16_1_1", ops="bf16", strict=True)
    torch.compile(lambda: over(R, x, (0, 1)) * x, backend=backend)().backward(torch.ones(64, 64))
    assert float(R.grad) == 4096
    mean = torch.ones(64, 1, requires_grad=True)
    torch.compile(lambda: over(mean, x, (1,)), backend=backend)().backward(torch.full((64, 64), 3.0))
    assert mean.grad.flatten().tolist() == [192.0] * 64


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_normalised_weights_keep_the_variance_of_the_output(kind: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(16, 6, 5, 5) if kind == "conv" else torch.rand(64, 20)
    layer = nn.Conv2d(6, 8, 3) if kind == "conv" else nn.Linear(20, 30)
    with torch.no_grad():
        layer.weight.add_(0.1)
    model, weight = nn.Sequential(nn.Identity(), layer), layer.weight
    normalise(model, "1", (x,), norm=True, weights=False)
    before = model(x) - (layer.bias[:, None, None] if kind == "conv" else layer.bias)
    normalise(model, "1", (x,), norm=True, weights=True)
    after = model(x) - (layer.bias[:, None, None] if kind == "conv" else layer.bias)
    assert float((after.var() / before.var()).detach()) == pytest.approx(1, rel=1e-4)
    assert layer.parametrizations.weight.original is weight  # so that the optimizer still has it
    norm, parametrization = layer.cr_norm, layer.parametrizations.weight[0]
    assert parametrization.R is norm.R
    with torch.no_grad():
        norm.R.fill_(2)
    want = 2 * parametrization.gain * (weight - weight.mean()) / (weight.var(unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(layer.weight, want)


def test_a_batch_norm_is_replaced_by_channel_and_other_layers_get_a_norm() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 3)
    )
    x = torch.rand(5, 1, 8, 8)
    for name in ("3", "5"):
        normalise(model, name, (x,), norm=True, weights=True)
    assert isinstance(model[1], CRNorm)
    assert model[1].channels == 4
    assert not hasattr(model[3], "cr_norm")
    assert model[3].parametrizations.weight[0].R is model[1].R
    assert model[5].cr_norm.channels is None
    cell = nn.Sequential(nn.LSTMCell(8, 4))
    normalise(cell, "0", (X,), norm=True, weights=True)
    assert set(cell[0].parametrizations) == {"weight_ih", "weight_hh"}
    network = nn.Sequential(nn.LSTM(8, 4))
    normalise(network, "0", (X,), norm=True, weights=True)
    assert float(network[0].cr_norm(X).mean()) == pytest.approx(0, abs=1e-5)
    assert not hasattr(network[0], "parametrizations")


# E3: the scale of the loss.


def test_the_loss_scale_rests_in_a_band_and_swings_by_the_literal_rule() -> None:
    for band, want in ((2, [23, 22, 21, 21, 21, 21, 21, 21]), (1.1, [23, 22, 21, 20, 21, 20, 21, 20])):
        scale, found = RangeLossScale(band), []
        for _ in want:
            reason = scale.update(2.0**-20, 1.3)
            found.append(round(math.log2(scale.scale)))
        assert found == want
        assert bool(reason) == (band == 1.1)
    assert scale.update(math.inf, 1.3) == "loss scale 2^20 -> 2^19: a gradient is not finite, no update"
    assert scale.update(0.0, 1.3) == ""
    assert scale.update(2.0**-20, 1.3) == "loss scale 2^19 -> 2^20: spread / R is 0.3846, <= 1 / 1.1"


# E4: the layer modifier.


def test_the_modifier_takes_the_worst_layer_but_not_the_ends() -> None:
    names = [str(n) for n in range(1, 21)]
    first = {**dict.fromkeys(names, 0.01), "1": 0.09, "20": 0.02754, "7": 0.05}
    second = {**first, "7": 0.009, "20": 0.00926, "12": 0.03}
    third = {**second, "12": 0.009, "20": 0.0085}
    for threshold, want in ((0.01, ["7"]), (0.009, ["7", "12"])):
        script, taken = iter((first, second, third)), []
        rounds, errors = modify(lambda script=script: next(script), taken.append, threshold)
        assert taken == [one.layer for one in rounds] == want
        assert rounds[0].errors is first
        assert errors is (second if threshold == 0.01 else third)
    taken = []
    modify(lambda: {**first, "20": math.nan}, taken.append, 0.01)
    assert sorted(taken, key=int) == names[1:-1]  # without an end, until no layer is left
    assert selectable([*names, *names]) == [*names[2:], *names[:-2]]
    assert selectable(["1", "2"]) == []


def test_errors_of_layers_are_those_of_diff() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    compiled = torch.compile(lambda: model(X), backend=numc.backend())
    with torch.no_grad():
        found = layer_errors(compiled, "bf16_1_1")
    programs = [numc.compile(model, (X,), fma=fma) for fma in ("fma(a=tf32,acc=fp32)", "bf16_1_1")]
    want = numc.diff(*programs, {programs[0].inputs[0].name: X.numpy()})
    assert list(found.values()) == [layer.difference.relative for layer in want.layers]
    assert [path.rpartition(".")[2] for path in found] == ["0", "2"]
    with pytest.raises(numc.NumcError, match="no contraction ran in numc: compile the model with backend=numc.back"):
        layer_errors(lambda: model(X))


# The recipe.


class Training:
    """A network without norms, its optimizer, and its step under the recipe."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        torch.manual_seed(seed)
        layers = (nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.recipe = TrainBF(self.model, self.optimizer, X, **{"steps": 40, **options})
        # Strict, because a part that torch computes itself would be in fp32.
        self.step = torch.compile(self.run, backend=numc.backend(strict=True))

    def run(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        self.recipe.scaled(loss).backward()
        self.recipe.step_optimizer()
        return loss

    def train(self, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            with self.recipe:
                losses.append(float(self.step(X, Y).detach()))
            self.recipe.update(losses[-1])
        return losses

    def states(self) -> dict[str, Any]:
        return {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "recipe")}

    def bits(self) -> list[np.ndarray]:
        return [value.numpy().view(np.int32).copy() for value in self.model.state_dict().values()]


@pytest.mark.slow
def test_a_training_that_goes_on_from_a_checkpoint_makes_the_same_bits() -> None:
    whole = Training(threshold=0)
    recipe = whole.recipe
    assert recipe.layers == ("2",)
    assert [one.layer for one in recipe.rounds] == ["2"]
    assert list(recipe.errors) == ["0", "2", "4"]
    before = whole.bits()
    recipe.prepare(whole.step, X, Y)
    assert all(np.array_equal(a, b) for a, b in zip(before, whole.bits(), strict=True))
    counted = numc.counters()
    first = whole.train(3)
    # The loss that is returned has no range term: it is that of the network alone.
    assert first[0] == pytest.approx(math.log(4), abs=0.4)
    assert [d.values["scale"] for d in recipe.history] == [2.0**24, 2.0**23, 2.0**22]
    assert recipe.history[-1].reason.startswith("loss scale 2^22 -> 2^21: spread / R is ")
    # R rises by 6 / steps, and the gradient is far smaller.
    assert recipe.ranges["2.cr_norm"] == pytest.approx(1 + 3 * 6 / 40, abs=0.05)
    saved = io.BytesIO()
    torch.save(whole.states(), saved)
    rest = whole.train(3)
    found = numc.counters()
    assert (found.graphs, found.programs) == (counted.graphs, counted.programs), "compiled after prepare"

    torch._dynamo.reset()
    saved.seek(0)
    states = torch.load(saved, weights_only=True)
    again = Training(seed=1, layers=states["recipe"]["options"]["layers"])
    assert again.recipe.rounds == ()
    for name, state in states.items():
        getattr(again, name).load_state_dict(state)
    assert again.train(3) == rest
    assert all(np.array_equal(a, b) for a, b in zip(again.bits(), whole.bits(), strict=True))
    assert again.recipe.state_dict() == recipe.state_dict()
    other = copy.deepcopy(states["recipe"])
    other["options"]["layers"] = []
    with pytest.raises(numc.NumcError, match="its layers are .., want .'2'.: make the recipe with layers=checkp"):
        again.recipe.load_state_dict(other)


@pytest.mark.all
def test_a_gradient_that_is_not_finite_changes_nothing_but_the_scale() -> None:
    training = Training(layers=["2"])
    training.train(1)
    before, scale = training.bits(), training.recipe.loss_scale.scale
    with training.recipe:
        training.optimizer.zero_grad()
        training.recipe.scaled(F.cross_entropy(training.model(X), Y)).backward()
        training.model[0].weight.grad[0, 0] = math.nan
        training.recipe.unscale()
        with pytest.raises(numc.NumcError, match="unscale twice in a step: the gradients are divided by S already"):
            training.recipe.unscale()
        assert not training.recipe.step_optimizer()
    decision = training.recipe.update(1.0)
    assert decision.reason.endswith("a gradient is not finite, no update")
    assert training.recipe.loss_scale.scale == scale / 2
    moved = zip(before, training.bits(), training.model.state_dict(), strict=True)
    assert {name for a, b, name in moved if not np.array_equal(a, b)} == {
        "2.cr_norm.running_mean",
        "2.cr_norm.running_var",
    }


def test_techniques_can_be_left_out() -> None:
    plain = Training(range=False, weights=False, scale=False, steps=None)
    assert (plain.recipe.layers, plain.recipe.ranges, plain.recipe.phi) == ((), {}, 0.0)
    assert not any("cr_norm" in name or "parametrizations" in name for name in plain.model.state_dict())
    loss = torch.tensor(2.0, requires_grad=True)
    assert plain.recipe.scaled(loss) is loss
    weights = Training(range=False, layers=["2"], steps=None)
    assert weights.model[2].parametrizations.weight[0].R is None
    assert weights.recipe.scaled(loss) == 2.0**25
    ranges = Training(weights=False, scale=False, layers=["2"])
    assert float(ranges.recipe.scaled(loss)) == pytest.approx(2 - 6 / (0.05 * 40))


def refused(match: str, call: Any, *given: Any, **options: Any) -> None:
    with pytest.raises(numc.NumcError, match=match) as found:
        call(*given, **options)
    assert "\n" not in str(found.value)


def test_what_is_refused() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    good = {"steps": 10, "layers": ["1"]}
    refused("TrainBF: model: got list, want a module of torch", TrainBF, [], optimizer, X)
    refused("model: got OptimizedModule: make the recipe from the plain", TrainBF, torch.compile(model), optimizer, X)
    refused("TrainBF: optimizer: got int, want an optimizer of torch", TrainBF, model, 1, X)
    for batch in (None, (), "x", torch.zeros(0, 8)):
        refused("TrainBF: batch: got .*, want a tensor, or a tuple of the arg", TrainBF, model, optimizer, batch)
    refused("TrainBF: the model fails on the batch .mat1 and mat2", TrainBF, model, optimizer, X[:, :3], steps=1)
    for threshold in (-1, math.nan, "1", True):
        refused(
            "TrainBF: threshold: got .*, want a relative error from 0, such", TrainBF, model, optimizer, X, threshold
        )
    refused("TrainBF: steps: want the number of steps of the whole tr", TrainBF, model, optimizer, X)
    refused("TrainBF: steps: got 0, want a whole number from 1", TrainBF, model, optimizer, X, steps=0)
    refused("TrainBF: scale: got int, want True or False", TrainBF, model, optimizer, X, steps=1, scale=1)
    refused("band: got 1, want a number above 1, such as 2", TrainBF, model, optimizer, X, steps=1, band=1)
    refused("loss scale: got 3, want a power of two from 2", RangeLossScale, 2, 3)
    refused(
        "the model has no layer '11' .did you mean '1'.*: want some of 0, 1, 2",
        TrainBF,
        model,
        optimizer,
        X,
        steps=1,
        layers=["11"],
    )
    refused(
        "layers: have no use without range and weights: want no",
        TrainBF,
        model,
        optimizer,
        X,
        range=False,
        weights=False,
        layers=["1"],
    )
    stopped = torch.optim.SGD(model.parameters(), lr=0.0)
    refused("the optimizer's learning rate is 0.0, want one above 0", TrainBF, model, stopped, X, **good)
    short = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    refused(
        "TrainBF: the model has no layers to normalise: got 2 linear, convolutional and recurrent layers, want 3",
        *(TrainBF, short, torch.optim.SGD(short.parameters(), lr=0.1), X),
        steps=10,
    )
    recipe = TrainBF(model, optimizer, X, **good)
    refused("the model is normalised already: want a model that no TrainBF", TrainBF, model, optimizer, X, **good)
    with recipe:
        refused("no gradients: call recipe.scaled.loss..backward.. before", recipe.step_optimizer)
    refused("update without step_optimizer..: call recipe.step_optimizer.. in the block", recipe.update)
    refused("CRNorm: channels: got 0, want a whole number from 1", CRNorm, 0)
    refused("CRNorm: got a tensor of 5 x 2, want 3 channels in dimension 1", CRNorm(3), torch.zeros(5, 2))
