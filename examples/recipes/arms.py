"""The recipes of the studies by name, and the names of each study, written before their runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from problems import Task

from numc.train import AccuracyBooster, DynamicPrecision, Fast, NarrowAccumulators, Recipe, Schedule, Static

BASE = "fp32"
CONTRACTIONS = ("forward", "dgrad", "wgrad")


@dataclass(frozen=True)
class Arm:
    """How a training is done. recipe: of a task and a seed. judged: the arithmetic of held-out data, if another."""

    recipe: Callable[[Task, int], Recipe]
    judged: str | None = None


def always(arithmetic: str) -> Arm:
    """Return the arm of one arithmetic for all steps."""
    return Arm(lambda task, seed: Static(arithmetic, seed=seed))


def booster(**given: int) -> Arm:
    """Return the arm of Accuracy Booster."""
    return Arm(lambda task, seed: AccuracyBooster(task.steps, task.last, seed=seed, **given))


def tuned(first: float, **given: int) -> Arm:
    """Return the arm of a training in fp32 whose second half is fine-tuned for narrow accumulators."""

    def recipe(task: Task, seed: int) -> Recipe:
        tuning = [*NarrowAccumulators(task.steps, first=first, **given).arithmetics]
        middle = [(0.5 + first / 2, tuning[0])] if first else []
        return Schedule([(0.5, "fp32"), *middle, (1.0, tuning[-1])], task.steps, seed=seed)

    return Arm(recipe)


def untuned(**given: int) -> Arm:
    """Return the arm of a training in fp32 that is judged with narrow accumulators."""
    (narrow,) = NarrowAccumulators(1, first=0, **given).arithmetics
    return Arm(lambda task, seed: Static("fp32", seed=seed), narrow)


_ACCUMULATORS = {
    "12 bits": {"significand": 7, "exponent": 4},
    "10 bits": {"significand": 5, "exponent": 4},
    "8 bits": {"significand": 3, "exponent": 4},
}
_WAYS: dict[str, Callable[..., Arm]] = {
    "not tuned": untuned,
    "tuned": lambda **given: tuned(0.0, **given),
    "tuned in two stages": lambda **given: tuned(0.5, **given),
}

ARMS: dict[str, Arm] = {
    **{
        name: always(name)
        for name in (
            "fp32",
            "mp",
            "fase_bf16",
            "1/6/9",
            "hfp8",
            "int8",
            "highbfp",
            "lowbfp",
            "hbfp4",
            "hbfp6",
            "te_fp8@blackwell",
            "nvfp4@blackwell",
        )
    },
    "accuracy booster, no last epoch": always("accuracy_booster"),
    "hbfp4, last epoch in hbfp6": Arm(
        lambda task, seed: Schedule([(1 - task.last / task.steps, "hbfp4"), (1.0, "hbfp6")], task.steps, seed=seed)
    ),
    "accuracy booster": booster(),
    "dynamic precision": Arm(
        lambda task, seed: DynamicPrecision("mp", "fase_bf16", monitor=1, block=15, threshold=0.04, seed=seed)
    ),
    "FAST": Arm(lambda task, seed: Fast(task.steps, seed=seed)),
    **{f"{bits}, {way}": make(**given) for bits, given in _ACCUMULATORS.items() for way, make in _WAYS.items()},
}

STUDIES: dict[str, tuple[str, ...]] = {
    "booster": (
        BASE,
        "hbfp6",
        "hbfp4",
        "hbfp4, last epoch in hbfp6",
        "accuracy booster, no last epoch",
        "accuracy booster",
    ),
    "accumulators": (BASE, *(f"{bits}, {way}" for bits in _ACCUMULATORS for way in _WAYS)),
    "all": (
        BASE,
        "mp",
        "fase_bf16",
        "dynamic precision",
        "1/6/9",
        "12 bits, tuned in two stages",
        "hfp8",
        "te_fp8@blackwell",
        "int8",
        "highbfp",
        "FAST",
        "accuracy booster",
        "lowbfp",
        "nvfp4@blackwell",
    ),
}
"""Study -> its arms."""


def multiply_adds(recipe: Recipe) -> dict[str, int]:
    """Return the multiply-adds of a recipe's contractions, by operator."""
    found: Counter[str] = Counter()
    for (role, operator), count in recipe.fmas.items():
        if role in CONTRACTIONS:
            found[operator] += count
    return dict(found)
