"""One arithmetic after another, each for a part of a training."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shown
from numc.train.recipes.arithmetics import Given, named
from numc.train.recipes.recipe import Recipe


@in_default_environment
class Schedule(Recipe):
    """A recipe that changes its arithmetic at fixed steps, as figure 10 of FAST does (Zhang et al., HPCA 2022).

        recipe = Schedule([(0.5, "lowbfp"), (1.0, "fp32")], total_steps=1000)

    Steps after `total_steps` have the last arithmetic.
    """

    needs_loss = False

    def __init__(
        self,
        stretches: Sequence[tuple[float, Given]],
        total_steps: int,
        *,
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take the stretches of the training: for each its end, as a fraction of `total_steps`, and its arithmetic.

        The ends rise, and the last one is 1; a stretch ends before the first step that is not below it. seed, log: see
        Recipe. Raises NumcError for anything else.
        """
        want = "pairs of a fraction and an arithmetic, such as [(0.5, 'bf16_1_1'), (1.0, 'fp32')]"
        checked(stretches, "Schedule: stretches", Sequence, want)
        if not all(isinstance(stretch, (tuple, list)) and len(stretch) == 2 for stretch in stretches):
            raise NumcError(f"Schedule: stretches: got {shown(stretches)}, want {want}")
        ends = [end for end, _ in stretches]
        if not _rise_to_one(ends):
            raise NumcError(f"Schedule: stretches: they end at {shown(ends)}, want fractions that rise from 0 to 1")
        super().__init__([arithmetic for _, arithmetic in stretches], seed=seed, log=log)
        total = checked_integer(total_steps, "Schedule: total_steps", 1, 2**53)
        self._stretches = [(math.ceil(end * total), named(arithmetic)[0]) for end, arithmetic in stretches]

    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        number = self.step + 1
        following = next((name for end, name in self._stretches if number < end), self._stretches[-1][1])
        begins = number in {end for end, _ in self._stretches[:-1]}
        return following, {}, f"a stretch ends after {number} steps" if begins else ""

    def options(self) -> dict[str, Any]:
        return {"stretches": [list(stretch) for stretch in self._stretches]}


def _rise_to_one(ends: Sequence[object]) -> bool:
    numbers = [float(end) for end in ends if isinstance(end, Real) and not isinstance(end, bool)]
    return len(numbers) == len(ends) and numbers[-1:] == [1.0] and all(a < b for a, b in pairwise([0.0, *numbers]))
