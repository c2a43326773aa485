"""The arithmetics of the study, written before its runs: columns of table II of the paper."""

from __future__ import annotations

from training import Trainer

from numc.train import Fast, Recipe, Static

BASE, FAST = "fp32", "FAST"
ARMS = (BASE, "int8", "lowbfp", "midbfp", "highbfp", FAST)
JUDGED = "highbfp"
"""The arithmetic in which FAST is judged: its format with four bits."""


class FastTrainer(Trainer):
    """Trains a task in a preset, or by FAST, whose validation has four bits."""

    def recipe(self, arithmetic: str, seed: int) -> Recipe:
        """Return the recipe of an arm."""
        return Fast(self.task.steps, seed=seed) if arithmetic == FAST else super().recipe(arithmetic, seed)

    def _judge(self, recipe: Recipe) -> tuple[float, float]:
        return super()._judge(Static(JUDGED) if isinstance(recipe, Fast) else recipe)
