"""One training by a recipe, from one seed, judged by held-out data in the recipe's last arithmetic."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import arms
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from problems import Task
from torch import Tensor

import numc

POINTS = 20
"""Of a curve of losses, at most: each is the mean over some steps."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    quality: per cent of held-out data. held_out_loss: their mean cross entropy. losses: of the training. fmas: the
    multiply-adds of its contractions, by operator.
    """

    quality: float
    held_out_loss: float
    losses: list[float]
    fmas: dict[str, int]
    cpu_seconds: float


class Trainer:
    """Trains the network of a task by SGD with momentum, once for each run; torch traces a step only once."""

    def __init__(self, task: Task) -> None:
        """Prepare a task."""
        self.task, self.model = task, task.model()
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=task.rate, momentum=task.momentum)
        for parameter in self.model.parameters():
            self._optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        model, optimizer = self.model, self._optimizer

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            logits = model(x)
            F.cross_entropy(logits, y).backward()
            optimizer.step()
            return logits.detach()

        def predict(x: Tensor) -> Tensor:  # of layers that have the names of those of a step
            return model(x)

        compiled = torch.compile(backend=numc.backend())
        self._step, self._predict = compiled(step), compiled(predict)

    def arm(self, name: str, seed: int) -> arms.Arm:
        """Return an arm by its name; seed: for arms that depend on others of the same seed."""
        return arms.ARMS[name]

    def run(self, name: str, seed: int, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train by the recipe of an arm, from the weights and with the batches of a seed, and judge it.

        torch computes losses from the logits in binary64, so that they show the errors of the network alone.
        """
        start = time.process_time()
        torch.manual_seed(seed)
        self.model.load_state_dict(self.task.model().state_dict())
        for state in self._optimizer.state.values():
            state["momentum_buffer"].zero_()
        self.model.train()
        arm = self.arm(name, seed)
        recipe, losses = arm.recipe(self.task, seed), []
        for x, y in islice(self.task.batches(seed), self.task.steps):
            with recipe:
                logits = self._step(x, y)
            losses.append(float(F.cross_entropy(logits.double(), y)))
            recipe.update(losses[-1])
            tick()
        inputs, classes = self.task.held_out()
        self.model.eval()
        judge = recipe if arm.judged is None else numc.train.Static(arm.judged, seed=seed)
        with judge, torch.no_grad():
            logits = self._predict(inputs).double()
        right = float((logits.argmax(1) == classes).double().mean())
        points = np.array_split(losses, min(POINTS, len(losses)))
        return Outcome(
            100 * right,
            float(F.cross_entropy(logits, classes)),
            [float(part.mean()) for part in points],
            arms.multiply_adds(recipe),
            time.process_time() - start,
        )
