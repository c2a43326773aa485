"""numc.train.OneShotSearch: what it draws, learns and settles on, and its policy beside its last steps."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402
from numc.train import OneShotSearch  # noqa: E402

FORMATS = ("e4m1", "e4m3", "e4m7")
SIZES = {"b": 1, "m": 8, "n": 4, "k": 16}
ROWS: list[Mapping[str, Any]] = [
    {"layer": "first", "role": "forward", **SIZES},
    {"layer": "last", "role": "forward", **SIZES, "m": None, "k": 2},
    {"layer": "last/wgrad", "role": "wgrad", **SIZES},
]


def steps(search: OneShotSearch, count: int, sensitive: str = "") -> list[dict[str, Any]]:
    """Steps without a network, whose loss is large where a layer is narrow; returns the widths of each."""
    found = []
    for _ in range(count):
        with search:
            found.append(search.widths(ROWS))
        narrow = sensitive and found[-1][sensitive]["b"] < 7
        search.update(2.0 if narrow else 0.1)
    return found


def test_the_layer_that_needs_bits_gets_them() -> None:
    """Where the other one has 8 of 9 multiply-adds, wide formats everywhere cost more than what is aimed at."""
    search = OneShotSearch(400, FORMATS, cost=0.2)
    widths = steps(search, 400, sensitive="last")
    assert search.chosen["last"] == "e4m7"
    assert search.chosen["first"] in ("e4m1", "e4m3")
    # Both operands of the forward pass, and what is no gradient of the backward pass, have the format of the layer.
    assert widths[0] == {
        "first": dict.fromkeys("ab", widths[0]["first"]["a"]),
        "last": dict.fromkeys("ab", widths[0]["last"]["a"]),
        "last/wgrad": {"b": widths[0]["last"]["a"]},
    }
    settled = {tuple(each["b"] for each in step.values()) for step in widths[-120:]}
    assert settled == {(int(search.chosen["first"][3:]), 7, 7)}
    assert [d.reason for d in search.history if d.reason] == [
        "the search begins", "every layer has its most probable format",
    ]  # fmt: skip
    assert [d.step for d in search.history if d.reason] == [79, 279]


def test_it_explores_evenly_before_it_learns() -> None:
    drawn = Counter(each["first"]["a"] for each in steps(OneShotSearch(10_000, FORMATS), 600))
    assert set(drawn) == {1, 3, 7}
    assert min(drawn.values()) > 160


def test_costs_and_rewards() -> None:
    """8 x 4 x 16 products in one layer and 1 x 4 x 2 in the other, whose number of rows is free."""
    search = OneShotSearch(10, FORMATS, cost=0.5, weight=0.25)
    steps(search, 1)
    expected = (512 * 2**2 + 8 * 8**2) / (520 * 8**2)
    assert search.cost_of({"first": "e4m1", "last": "e4m7"}) == expected
    with search:
        search.widths(ROWS)
    assert search.update(-1.0).values["reward"] <= 1.0  # such as of a likelihood above 1
    decision, _ = search.history
    cost, reward = decision.values["cost"], decision.values["reward"]
    assert reward == math.exp(-0.1) - 0.25 * abs(cost / 0.5 - 1)
    groups = OneShotSearch(10, ("bfp(16,3,2)", "bfp(16,3,4)"))
    steps(groups, 1)
    assert groups.cost_of({"first": "bfp(16,3,2)", "last": "bfp(16,3,2)"}) == 0.25
    with pytest.raises(numc.NumcError, match=r"OneShotSearch: 'frist': 'e4m1' is no choice .* \(did you mean 'first'"):
        search.cost_of({"frist": "e4m1"})
    with pytest.raises(numc.NumcError, match="'first': 'e4m2' is no choice of the search"):
        search.cost_of({"first": "e4m2"})


def test_a_resumed_search_is_one_that_was_never_stopped() -> None:
    whole, first, second = (OneShotSearch(40, FORMATS, seed=3) for _ in range(3))
    drawn = steps(whole, 40, "last")
    assert steps(first, 17, "last") == drawn[:17]
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert steps(second, 23, "last") == drawn[17:]
    assert second.probabilities == whole.probabilities
    with pytest.raises(numc.NumcError, match="OneShotSearch: checkpoint: its options is"):
        OneShotSearch(40, FORMATS, cost=0.3, seed=3).load_state_dict(first.state_dict())


@pytest.mark.parametrize("formats", [("e4m3", "e5m2"), ("bfp(4,3,2)", "bfp(4,3,4)")])
def test_the_policy_has_the_bits_of_the_last_steps(formats: tuple[str, str]) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    x, y = torch.randn(16, 8), torch.arange(16) % 4
    search = OneShotSearch(6, formats, explore=0.3, settle=0.3)

    def gradients(step: Any) -> list[Any]:
        net.zero_grad()
        torch.nn.functional.cross_entropy(step(x), y).backward()
        return [parameter.grad.clone() for parameter in net.parameters()]

    step = torch.compile(net, backend=numc.backend())
    for _ in range(6):
        with search:
            last = gradients(step)
        before = numc.counters().compilations
        search.update(1.0)
    assert numc.counters().compilations == before
    assert set(search.chosen) == {"0", "2"}
    fixed = gradients(torch.compile(net, backend=numc.backend(policy=search.training_policy)))
    assert all(torch.equal(a, b) for a, b in zip(last, fixed, strict=True))
    with search, torch.no_grad():
        assert torch.equal(step(x), numc.compile(net, (x,), policy=search.policy)(x))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"formats": ("e4m3",)}, "formats: got ['e4m3'], want two or more, all different"),
        ({"formats": ("e4m3", "bfp(16,3,2)")}, "'bfp(16,3,2)'], want one kind, of one G and one E"),
        ({"formats": ("int8", "e4m3")}, "a format of formats: got 'int8', want eXmY or bfp(G,E,M)"),
        ({"formats": "e4m3"}, "formats: got str, want a list of texts"),
        ({"cost": 0}, "want a cost above 0, and explore + settle of at most 1"),
        ({"explore": 0.8, "settle": 0.5}, "want a cost above 0, and explore + settle of at most 1"),
        ({"rate": -1}, "rate: got -1, want a number that is not negative"),
        ({"explore": "half"}, "explore: got 'half', want a number from 0 to 1"),
        ({"gradients": "bf17"}, "unknown format 'bf17' (did you mean 'bf16'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(numc.NumcError) as error:
        OneShotSearch(10, **options)
    assert says in str(error.value)
