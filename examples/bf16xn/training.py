"""One training in one arithmetic from one seed, judged at the end of each part of it by held-out data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from problems import Inputs, Task
from settings import BASE
from torch import Tensor

import numc
from numc.train import Recipe, Static

POINTS = 20
"""Of a curve of losses, at most: each is the mean over some steps."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    qualities: of held-out data, in the task's measure, an epoch each. held_out_losses: theirs. losses: of the training.
    """

    qualities: list[float]
    held_out_losses: list[float]
    losses: list[float]
    cpu_seconds: float

    @property
    def quality(self) -> float:
        """At the end."""
        return self.qualities[-1]

    @property
    def held_out_loss(self) -> float:
        """At the end."""
        return self.held_out_losses[-1]


class Trainer:
    """Trains the network of a task, once for each run; torch traces a step only once."""

    def __init__(self, task: Task) -> None:
        """Prepare a task."""
        self.task, self.model = task, task.model()
        self._optimizer = task.optimizer(self.model.parameters())
        moments = ["exp_avg", "exp_avg_sq"] if isinstance(self._optimizer, torch.optim.Adam) else ["momentum_buffer"]
        for parameter in self.model.parameters():
            self._optimizer.state[parameter].update({name: torch.zeros_like(parameter) for name in moments})
            if len(moments) > 1:
                self._optimizer.state[parameter]["step"] = torch.tensor(0.0)
        model, optimizer = self.model, self._optimizer

        def step(inputs: Inputs, target: Tensor) -> Tensor:
            optimizer.zero_grad()
            outputs = model(*inputs)
            task.loss(outputs, target).backward()
            optimizer.step()
            return outputs.detach()

        def predict(*inputs: Tensor) -> Tensor:  # of layers that have the names of those of a step
            return model(*inputs)

        compiled = torch.compile(backend=numc.backend())
        self._step, self._predict, self._traced = compiled(step), compiled(predict), False

    def run(self, arithmetic: str, seed: int, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train in an arithmetic from the weights and with the batches of a seed, and judge it in the same arithmetic.

        torch computes losses from the outputs in binary64, so that they show the errors of the network alone.
        """
        start = time.process_time()
        if not self._traced:
            self._trace()
        task, recipe = self.task, self.recipe(arithmetic, seed)
        torch.manual_seed(seed)
        self.model.load_state_dict(task.model().state_dict())
        for state in self._optimizer.state.values():
            for moment in state.values():
                moment.zero_()
        self.model.train()
        losses, judged = [], []
        ends = {round((n + 1) * task.steps / task.epochs) for n in range(task.epochs)}
        for number, (inputs, target) in enumerate(islice(task.batches(seed), task.steps), 1):
            self._optimizer.param_groups[0]["lr"] = task.rate_at(number - 1)
            with recipe:
                outputs = self._step(inputs, target)
            losses.append(float(task.loss(outputs.double(), target)))
            recipe.update(losses[-1])
            if number in ends:
                judged.append(self._judge(recipe))
            tick()
        points = np.array_split(losses, min(POINTS, len(losses)))
        qualities, held_out = zip(*judged, strict=True)
        curve = [float(part.mean()) for part in points]
        return Outcome([*qualities], [*held_out], curve, time.process_time() - start)

    def recipe(self, arithmetic: str, seed: int) -> Recipe:
        """Return what chooses the arithmetic of each step."""
        return Static(arithmetic, seed=seed)

    def _trace(self) -> None:
        """Let torch trace the step with a rate that changes, which it takes for a constant at first."""
        inputs, target = next(self.task.batches(0))
        for rate in (1.0, 2.0):
            self._optimizer.param_groups[0]["lr"] = rate
            with Static(BASE):
                self._step(inputs, target)
        self._traced = True

    def _judge(self, recipe: Recipe) -> tuple[float, float]:
        self.model.eval()
        with recipe, torch.no_grad():
            found = self.task.judge(self._predict)
        self.model.train()
        return found
