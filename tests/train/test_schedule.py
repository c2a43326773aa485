"""numc.train.Schedule: which step has which arithmetic, checkpoints, and what it refuses."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

import numc
from numc.train import Schedule

STRETCHES = [(0.25, "bf16_1_1"), (0.5, "fp32"), (1.0, "bf16_1_1")]


def run(recipe: Schedule, steps: int) -> list[str]:
    for _ in range(steps):
        with recipe:
            pass
        recipe.update()
    return [decision.used for decision in recipe.history]


@pytest.mark.parametrize("total", [10, 12])
def test_every_step_has_the_arithmetic_of_its_stretch(total: int) -> None:
    want = [next(name for end, name in STRETCHES if step < end * total) for step in range(total)]
    recipe = Schedule(STRETCHES, total)
    assert run(recipe, total + 2) == [*want, "bf16_1_1", "bf16_1_1"]
    assert [d.step for d in recipe.history if d.reason] == [n for n in range(total - 1) if want[n] != want[n + 1]]
    assert recipe.step_shares()["fp32"] == want.count("fp32") / (total + 2)


def test_a_resumed_run_goes_on() -> None:
    whole, first = Schedule(STRETCHES, 10), Schedule(STRETCHES, 10)
    run(first, 4)
    resumed = Schedule(STRETCHES, 10)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert run(resumed, 6) == run(whole, 10)
    with pytest.raises(
        numc.NumcError, match=r"^Schedule: checkpoint: its options is .* make the recipe as it was made"
    ):
        Schedule(STRETCHES, 20).load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("stretches", "steps", "message"),
    [
        (
            [(0.5, "fp32"), (0.5, "mp"), (1, "fp32")],
            4,
            r"they end at \[0.5, 0.5, 1\], want fractions that rise from 0 to 1",
        ),
        ([(0.5, "fp32")], 4, r"they end at \[0.5\], want fractions that rise from 0 to 1"),
        ([("half", "fp32"), (1.0, "mp")], 4, r"they end at \['half', 1.0\], want fractions that rise"),
        ([], 4, r"they end at \[\], want fractions"),
        (["fp32"], 4, r"got \['fp32'\], want pairs of a fraction and an arithmetic, such as"),
        (1, 4, r"stretches: got int, want pairs of a fraction"),
        ([(1.0, "fp32")], 0, r"Schedule: total_steps: got 0, want a whole number from 1"),
        ([(1.0, "fp23")], 4, r"fp23.*did you mean 'fp32'"),
    ],
)
def test_bad_input_is_one_line(stretches: object, steps: int, message: str) -> None:
    with pytest.raises(numc.NumcError, match=message):
        Schedule(stretches, steps)
