"""One arithmetic for a whole training."""

from __future__ import annotations

import os

from numc.support.environment import in_default_environment
from numc.train.recipes.arithmetics import Given
from numc.train.recipes.recipe import Recipe


@in_default_environment
class Static(Recipe):
    """A recipe that never changes its arithmetic; its history and shares are those that other recipes are compared to.

    arithmetic, seed, log: as for every recipe, see Recipe.
    """

    needs_loss = False

    def __init__(self, arithmetic: Given = "fp32", *, seed: int = 0, log: str | os.PathLike[str] | None = None) -> None:
        super().__init__([arithmetic], seed=seed, log=log)

    def decide(self, loss: float | None) -> tuple[str, dict[str, float], str]:
        (only,) = self.arithmetics
        return only, {}, ""
