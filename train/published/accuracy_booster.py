"""Accuracy Booster: four bits for most of a training, six in its last epoch and in the first and the last layer."""

from __future__ import annotations

import os

from numc.numerics.policy.presets import boosted, hbfp
from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment
from numc.train.recipes.schedule import Schedule


@in_default_environment
class AccuracyBooster(Schedule):
    """Trains in HBFP4, and the first layer, the last layer and the last epoch in HBFP6 (Harma et al., 2211.10737).

        recipe = numc.train.AccuracyBooster(total_steps=90 * len(loader), last_steps=len(loader))

    HBFP is block floating point in every contraction of the forward and the backward pass and fp32 everywhere else,
    also in the weights between the steps.
    """

    def __init__(
        self,
        total_steps: int,
        last_steps: int,
        *,
        narrow: int = 4,
        wide: int = 6,
        block: int = 64,
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take the steps of the training, and those of its last epoch.

        narrow, wide: bits of a value, with its sign. block: values that share an exponent. seed, log: see Recipe.
        Raises NumcError for values that are not allowed.
        """
        total = checked_integer(total_steps, "AccuracyBooster: total_steps", 1, 2**53)
        last = checked_integer(last_steps, "AccuracyBooster: last_steps", 1, total)
        size = checked_integer(block, "AccuracyBooster: block", 1, 4096)
        few = hbfp(checked_integer(narrow, "AccuracyBooster: narrow", 2, 24), size)
        many = hbfp(checked_integer(wide, "AccuracyBooster: wide", 2, 24), size)
        stretches = [(1 - last / total, boosted(few, many)), (1.0, boosted(many, many))]
        super().__init__(stretches[total == last :], total, seed=seed, log=log)
