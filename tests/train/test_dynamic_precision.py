"""Algorithm 1 of the thesis, with the vectors that were computed by hand."""

from __future__ import annotations

import itertools
import json
import math
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

import numc
from numc.train import Decision, DynamicPrecision, average_drop

LOSSES = [3.0, 2.8, 2.6, 2.4, 2.2, 2.0, 2.0, 1.8, 1.8, 1.8, 1.8, 1.8, 1.8, 1.5, 1.5, 1.5, 1.5, 1.5]
AVERAGES = [
    *(2.5, 2.333333, 2.155556, 2.037037, 1.958025, 1.905350, 1.870233, 1.846822),
    *(1.731215, 1.654143, 1.602762, 1.568508, 1.545672),
]
USED = "HHHHHHH LLLLLL H LLL H".replace(" ", "")


def make(**options) -> DynamicPrecision:
    return DynamicPrecision(**{"high": "mp", "low": "bf16_1_1", "monitor": 1, "block": 3, "threshold": 0.06, **options})


def run(recipe: DynamicPrecision, losses) -> DynamicPrecision:
    for loss in losses:
        with recipe:
            pass
        recipe.update(loss)
    return recipe


def used(recipe: DynamicPrecision) -> str:
    return "".join("H" if decision.used == "mp" else "L" for decision in recipe.history)


def test_the_example_computed_by_hand() -> None:
    recipe = run(make(), LOSSES)
    assert used(recipe) == USED
    found = [decision.values["ema"] for decision in recipe.history[5:]]
    assert found == pytest.approx(AVERAGES, abs=5e-7)
    reasons = {decision.step: decision.reason for decision in recipe.history if decision.reason}
    assert reasons[9] == "stays low: the average fell by 0.07901 in one step of the average, > 0.06"
    assert reasons[12] == "goes up: the average fell by 0.02341 in one step of the average, <= 0.06"
    assert sorted(reasons) == [6, 9, 12, 13, 16]
    assert recipe.step_shares() == {"mp": 0.5, "bf16_1_1": 0.5}


def test_a_block_compared_as_a_whole_is_never_left() -> None:
    assert used(run(make(compare="block"), LOSSES)) == "H" * 7 + "L" * 11


@pytest.mark.filterwarnings("ignore:numc. DynamicPrecision, step 8")
@pytest.mark.parametrize("compare", ["step", "block"])
def test_a_run_resumed_anywhere_decides_the_same(tmp_path, compare) -> None:
    losses = [*LOSSES[:8], math.nan, *LOSSES[8:]]
    whole = run(make(compare=compare, log=tmp_path / "whole.jsonl"), losses)
    for cut in range(len(losses) + 1):
        first, second = (make(compare=compare, log=tmp_path / "parts.jsonl") for _ in range(2))
        state = json.loads(json.dumps(run(first, losses[:cut]).state_dict()))
        run(first, losses[cut : cut + 2])  # it was killed after its last checkpoint
        second.load_state_dict(state)
        run(second, losses[cut:])
        assert list(map(repr, second.history)) == list(map(repr, whole.history)), f"resumed at {cut}"
        assert second.current == whole.current
        assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    lines = (tmp_path / "whole.jsonl").read_text().splitlines()
    assert [repr(Decision.from_json(line)) for line in lines] == list(map(repr, whole.history))


def test_a_loss_that_is_not_finite_leads_to_the_high_arithmetic() -> None:
    recipe = run(make(block=100), LOSSES[:8])
    before = recipe.history[-1].values["ema"]
    assert recipe.history[-1].next == "bf16_1_1"
    with recipe:
        pass
    with pytest.warns(UserWarning, match="step 8: the loss is inf, which no average takes up"):
        decision = recipe.update(math.inf)
    assert (decision.next, decision.reason) == ("mp", "goes up: the loss is inf")
    assert decision.values["ema"] == before
    with warnings.catch_warnings():  # of a training that has become NaN, only the first step warns
        warnings.simplefilter("error")
        run(recipe, [math.nan, math.inf])
    run(recipe, [1.0])
    assert recipe.history[-1].values["drop"] == pytest.approx((before - 1.0) / 3)


def test_noise_alone_makes_large_shares() -> None:
    """The shares that recipes of this kind reach on a falling loss with noise, over 4000 monitored steps."""
    for noise, share in ((0.05, 0.63), (0.08, 0.92), (0.1, 0.955), (0.2, 0.977)):
        rng = np.random.default_rng(3)
        i = np.arange(4000)
        losses = 1 + 5.9 * np.exp(-i / 400) + rng.normal(0, noise, i.size)
        recipe = run(DynamicPrecision(low="bf16_1_1", monitor=1, block=100), losses.tolist())
        # A monitored step stands for ten steps: a block of 1000 has 100.
        assert recipe.step_shares()["bf16_1_1"] == pytest.approx(share, abs=0.03), noise


def test_what_is_averaged_over_ten_steps() -> None:
    losses = [value + 0.25 * (n - 4.5) for value in LOSSES for n in range(10)]
    last, mean = (run(make(monitor=10, block=30, loss=loss), losses) for loss in ("last", "mean"))
    assert used(mean)[::10] == USED  # the mean of each ten is the loss of the example
    assert used(last)[::10] == USED  # the last of each ten is that plus a constant
    assert last.history[59].values["ema"] == pytest.approx(2.5 + 0.25 * 4.5)
    assert mean.history[59].values["ema"] == pytest.approx(2.5)


def test_a_chain_is_gone_along_one_by_one() -> None:
    names = ["mp", "bf16_2_2{3}", "bf16_1_2", "bf16_1_1"]
    recipe = run(make(low=names[1:], block=1, threshold=0.1), [5.0] * 6 + [4.0, 3.0, 2.0, 1.0, 0.0] + [0.0] * 12)
    found = [names.index(decision.used) for decision in recipe.history]
    assert found[:12] == [0] * 7 + [1, 2, 3, 3, 3]
    assert found[-1] == 0
    assert all(abs(a - b) <= 1 for a, b in itertools.pairwise(found))


def test_the_threshold_of_a_run_in_fp32() -> None:
    falls = [a - b for a, b in itertools.pairwise(AVERAGES)]
    mean = sum(falls) / len(falls)
    assert average_drop(LOSSES, monitor=1) == pytest.approx(mean, abs=1e-6)
    assert make(threshold="auto", reference=LOSSES).threshold == average_drop(LOSSES, monitor=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"low": "bf16_1_9x"}, "bf16_1_9x"),
        ({"low": "mp"}, "want different arithmetics for high and low, and for each of a chain"),
        (
            {"low": 3},
            "the arithmetic of a recipe: got int, want a preset, an operator, such a text with roles, or a policy",
        ),
        ({"low": "bf16_1_1 with update"}, "got 'update' after 'with', want ROLE=OPERATOR, each role once"),
        ({"low": "bf16_1_1 with updat=fp32"}, "unknown role 'updat' (did you mean 'update'?)"),
        ({"monitor": 10, "block": 15}, "block: got 15, want a multiple of monitor, 10"),
        ({"monitor": 0}, "monitor: got 0, want a whole number from 1"),
        ({"average": 0}, "average: got 0, want a whole number from 1"),
        ({"threshold": "0.04"}, "threshold: got '0.04', want a difference of losses, or 'auto'"),
        ({"threshold": math.nan}, "threshold: got nan, want a difference of losses, or 'auto'"),
        ({"threshold": "auto"}, "want reference=, the losses of a run in fp32, one for each step"),
        ({"threshold": "auto", "reference": LOSSES[:6]}, "losses: got 6, want those of more than 6 steps"),
        ({"threshold": "auto", "reference": [math.nan] * 9}, "losses: got nan, want finite numbers"),
        ({"reference": LOSSES}, "reference: has no use with threshold 0.06"),
        ({"loss": "lst"}, "loss: got 'lst' (did you mean 'last'?), want 'last' or 'mean'"),
        ({"compare": 1}, "compare: got 1, want 'step' or 'block'"),
        ({"seed": -1}, "seed: got -1, want a whole number from 0"),
        ({"log": "no/such/folder/x.jsonl"}, "there is no folder no/such/folder: create it first"),
    ],
)
def test_what_is_not_allowed(options, text) -> None:
    with pytest.raises(numc.NumcError) as error:
        make(**options)
    assert text in str(error.value)
