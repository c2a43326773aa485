"""Recipes of papers: which steps have which arithmetic, variances of unit-scaled layers, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

import numc
from numc.numerics.grammar import parse_fma
from numc.numerics.policy.load import load_policy
from numc.train import AccuracyBooster, NarrowAccumulators, Schedule, UnitScaling
from numc.train.published.unit_layers import UnitConv2d, UnitLinear, UnitReLU

nn = torch.nn
NARROW, WIDE = (f"fma(a=bfp(64,8,{bits}):sr8,b=bfp(64,8,{bits}):sr8,acc=fp32)" for bits in (3, 5))


def used(recipe: Schedule, steps: int) -> list[str]:
    for _ in range(steps):
        with recipe:
            pass
        recipe.update()
    return [decision.used for decision in recipe.history]


def test_accuracy_booster_is_wide_in_the_outer_layers_and_the_last_epoch() -> None:
    recipe = AccuracyBooster(10, 3)
    first, second = (load_policy(text) for text in recipe.arithmetics)
    assert first == load_policy("accuracy_booster")
    assert str(first).splitlines()[:2] == [f"default fma = {NARROW}", f"layer first, last fma = {WIDE}"]
    assert {str(rule) for rule in second.rules} == {
        f"default fma = {WIDE}", f"layer first, last fma = {WIDE}", "role update, norm, softmax fp32",
    }  # fmt: skip
    names = list(recipe.arithmetics)
    assert used(recipe, 12) == [names[0]] * 7 + [names[1]] * 5
    assert list(AccuracyBooster(3, 3).arithmetics) == names[1:]
    mine = AccuracyBooster(2, 1, narrow=5, wide=9, block=16)
    assert ["bfp(16,8,4):sr8" in name for name in mine.arithmetics] == [True, False]
    assert all("bfp(16,8,8):sr8" in name for name in mine.arithmetics)
    presets = [load_policy(name).rules[0].settings[0][1] for name in ("hbfp4", "hbfp6")]
    assert [parse_fma(text) for text in presets] == [parse_fma(text) for text in (NARROW, WIDE)]


def test_narrow_accumulators_begin_without_underflow() -> None:
    """Sums have exponents from -9 to 5 and products from -11 to 3 in the second stage, and 7 bits below the first."""
    recipe = NarrowAccumulators(10, first=0.4)
    free, narrow = recipe.arithmetics
    assert used(recipe, 11) == [free] * 4 + [narrow] * 7
    assert narrow == str(load_policy("lba12")).strip()
    assert list(NarrowAccumulators(10, first=0).arithmetics) == [narrow]
    cases = [(2.0**-9, 1.0, 0.0), (2.0**-10, 1.0, 0.0), (1.0, 1 + 2.0**-7, 30.0), (2.0, 2.0, 62.0), (5.0, 5.0, 0.0)]
    for name, want in {
        free: [2.0**-9, 2.0**-10, 31.0, 66.0, 25.0],
        narrow: [2.0**-9, 0.0, 31.0, 63.75, 15.9375],
    }.items():
        assert [float(numc.fma(*each, fma=name.partition(" fma = ")[2])) for each in cases] == want


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AccuracyBooster(0, 1), "AccuracyBooster: total_steps: got 0, want a whole number from 1"),
        (lambda: AccuracyBooster(4, 5), "AccuracyBooster: last_steps: got 5, want a whole number from 1 to 4"),
        (lambda: AccuracyBooster(4, 1, narrow=1), "AccuracyBooster: narrow: got 1, want a whole number from 2 to 24"),
        (lambda: AccuracyBooster(4, 1, block=0), "AccuracyBooster: block: got 0, want a whole number from 1"),
        (lambda: NarrowAccumulators(4, first=1.0), "NarrowAccumulators: first: got 1.0, want a fraction from 0 and"),
        (lambda: NarrowAccumulators(4, exponent=9), "NarrowAccumulators: exponent: got 9, want a whole number from 2"),
        (lambda: UnitScaling(any_object(3)), "UnitScaling: model: got int, want a module with Linear or Conv2d"),
        (lambda: UnitScaling(nn.Linear(2, 2)), "UnitScaling: model: it has no Linear or Conv2d modules inside"),
        (lambda: UnitScaling(nn.Sequential(nn.LSTM(2, 2))), "UnitScaling: module '0' is a LSTM: want Linear, or"),
        (lambda: UnitScaling(nn.Sequential(nn.Conv2d(2, 2, 3, groups=2))), "module '0' is a Conv2d: want Linear, or"),
        (lambda: UnitScaling(small(), rule="mup"), "UnitScaling: rule: got 'mup', want unit or u-mup"),
        (lambda: UnitScaling(small()).groups(0), "UnitScaling: rate: got 0, want a number above 0"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(numc.NumcError) as error:
        make()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def any_object(value: Any) -> Any:
    return value


def small() -> Any:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 5))


@pytest.mark.parametrize("rule", ["unit", "u-mup"])
def test_values_and_gradients_have_the_variance_one(rule: str) -> None:
    """By "u-mup", results do and gradients have the factor of the result; by "unit", both share the difference."""
    torch.manual_seed(0)
    layers = [
        (UnitLinear.of(nn.Linear(400, 100), rule, False), (800, 400), 4.0),
        (UnitConv2d.of(nn.Conv2d(16, 32, 3, padding=1), rule), (64, 16, 20, 20), 0.5),
        (UnitReLU(rule), (400, 400), None),
    ]
    for layer, shape, ratio in layers:
        x = torch.randn(shape, requires_grad=True)
        y = layer(x)
        y.backward(torch.randn_like(y))
        result, gradient = float(y.detach().std()), float(x.grad.std())
        if ratio is not None:  # of fan in to fan out; a padded border has fewer products
            assert result == pytest.approx(1 if rule == "u-mup" else ratio**0.25, rel=0.05)
            assert result / gradient == pytest.approx(ratio**0.5, rel=0.05)
            assert all(float(p.grad.std()) == pytest.approx(1, rel=0.25) for p in layer.parameters())
        else:
            assert result == pytest.approx(1 if rule == "u-mup" else 0.909, rel=0.01)
            assert gradient == pytest.approx(1.211 if rule == "u-mup" else 1.1, rel=0.01)


@pytest.mark.parametrize("rule", ["unit", "u-mup"])
def test_a_unit_scaled_network_computes_true_gradients_times_constants(rule: str) -> None:
    torch.manual_seed(1)
    model, x, y = small(), torch.randn(20, 2, 8, 8), torch.arange(20) % 5
    recipe = UnitScaling(model, rule=rule)
    names = ["0", "3", "5"]
    assert list(recipe.layers) == names
    recipe.cross_entropy(model(x), y).backward()
    given = {name: p.grad.clone() for name, p in model.named_parameters()}
    plain = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    factors = [recipe.layers[name].scales.ahead for name in names]
    relu = model[1]._factors[0]
    z = torch.nn.functional.conv2d(x, plain["0.weight"]) * factors[0] + plain["0.bias"][:, None, None]
    z = relu * torch.relu(z).flatten(1)
    z = relu * torch.relu(z @ plain["3.weight"].T * factors[1] + plain["3.bias"])
    logits = z @ plain["5.weight"].T * factors[2] + plain["5.bias"]
    torch.testing.assert_close(logits, model(x))
    torch.nn.functional.cross_entropy(logits, y).backward()
    for name, gradient in given.items():
        ratio = gradient / plain[name].grad
        seen = plain[name].grad.abs() > 1e-3 * plain[name].grad.abs().max()
        assert float(ratio[seen].std() / ratio[seen].mean()) < 1e-3, name
    hidden, _, readout = recipe.groups(0.5)
    assert hidden["lr"] == (0.5 * 18**-0.5 if rule == "u-mup" else 0.5)
    assert readout["lr"] == 0.5
    assert sum(p.numel() for group in recipe.groups(1.0) for p in group["params"]) == sum(
        p.numel() for p in model.parameters()
    )
    assert recipe.state_dict()["options"]["rule"] == rule
