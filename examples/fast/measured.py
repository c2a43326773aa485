"""One training under a recipe, with the validations on the way and the time that FAST's array would take to each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import settings
from tasks import Digits
from training import Trainer

import numc
from numc.train import Fast, Recipe, TimeToAccuracy

EVERY = 10
"""Steps from one validation to the next."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    quality: per cent of held-out images, at the end, in the arithmetic of the last step; FAST validates with 4 bits.
    validations: the same after every EVERY steps. seconds: simulated, of FAST's array or the one of the format that
    takes its place, up to each of them; empty where it was not asked for. bits: by layer and kind of tensor, the
    magnitude bits in every step; of FAST only. passes: mean over steps.
    """

    quality: float
    validations: list[float]
    seconds: list[float]
    cpu_seconds: float
    passes: float = 0.0
    bits: dict[str, list[int]] = field(default_factory=dict)


class Runner:
    """Trains the network of a task, once for each run; torch traces it only once."""

    def __init__(self, task: Digits) -> None:
        """Prepare a task, and find its layers."""
        self.task, self.trainer = task, Trainer(task)
        x, y = next(task.batches(0))
        finder = Fast(1)
        finder.prepare(self.trainer.step, x, y, keep=[self.trainer.model, self.trainer.optimizer])
        self.layers = finder.layers
        self._example = x

    def run(self, name: str, seed: int, tick: Callable[[], None]) -> Outcome:
        """Train under the recipe of a name, from the weights and with the batches of a seed."""
        start, task = time.process_time(), self.task
        recipe = settings.recipe(name, task.steps, self.layers)
        array = None
        if name in settings.PRESETS or name == settings.FAST:
            array = TimeToAccuracy("fast", target=100, model=task.model(), inputs=self._example)
        validations: list[float] = []
        seconds: list[float] = []

        def each_step() -> None:
            if array is not None:
                array.step(_without_model(recipe.bits) if isinstance(recipe, Fast) else recipe.history[-1].used)
            if recipe.step % EVERY == 0:
                validations.append(self._quality(recipe))
                seconds.extend([] if array is None else [array.spent.seconds])
            tick()

        self.trainer.run(seed, each_step, recipe)
        quality = self._quality(recipe)
        spent = time.process_time() - start
        if not isinstance(recipe, Fast):
            return Outcome(quality, validations, seconds, spent)
        rows = [dict(decision.values) for decision in recipe.history]
        passes = [row.pop("passes") for row in rows]
        names = [name for name in rows[0] if name != "loss"]
        bits = {name: [int(row[name]) for row in rows] for name in names}
        return Outcome(quality, validations, seconds, spent, sum(passes) / len(passes), bits)

    def _quality(self, recipe: Recipe) -> float:
        """Return the quality in the arithmetic that the last step had.

        Truncation makes activations smaller, and the moments that batch norm keeps are those of the arithmetic.
        """
        used = recipe.arithmetics[recipe.history[-1].used]
        widths = recipe.widths if isinstance(recipe.widths, int) else None
        chosen = contextlib.nullcontext() if widths is None else numc.widths(widths)
        with numc.arithmetic(used), chosen:
            return self.trainer.quality()


def _without_model(bits: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Return the names that contractions have in the model alone."""
    return {name.removeprefix("model."): operands for name, operands in bits.items()}
