"""One training run in one arithmetic, from one seed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from tasks import Task
from torch import Tensor

import numc
from numc.train import Recipe

POINTS = 50
"""Of a curve of losses, at most: each is the mean over some steps."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    losses: cross entropy at the steps. quality: on held-out data, in the task's measure. measured: what else a study
    takes from it.
    """

    quality: float
    losses: list[float]
    cpu_seconds: float
    measured: dict[str, float] = field(default_factory=dict)


def arithmetic(text: str) -> contextlib.AbstractContextManager[None]:
    """Return the ``with`` block for ``OPERATOR`` or ``OPERATOR with ROLE=OPERATOR ...``. Raises NumcError."""
    name, _, roles = text.partition(" with ")
    parts = (role.partition("=") for role in roles.split())
    return numc.arithmetic(name, **{role: operator for role, _, operator in parts})


class Trainer:
    """Trains the network of a task, once for each run.

    All runs share the network and the optimizer, so that torch traces a step only once; each run sets their values.
    """

    def __init__(self, task: Task, compiled: Callable[..., Any] | None = None) -> None:
        """Prepare a task. compiled: used instead of torch.compile with numc; the identity gives eager torch."""
        if compiled is None:
            compiled = torch.compile(backend=numc.backend())
        self.task = task
        self.model = model = task.model()
        self.optimizer = optimizer = torch.optim.SGD(model.parameters(), lr=task.rate, momentum=task.momentum)
        for parameter in model.parameters():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            logits = model(x).flatten(0, -2)
            F.cross_entropy(logits, y).backward()
            optimizer.step()
            return logits.detach()

        def predict(x: Tensor) -> Tensor:
            with torch.no_grad():
                return model(x).flatten(0, -2)

        self.step, self._predict = compiled(step), compiled(predict)
        self._held_out = task.held_out()

    def run(self, seed: int, tick: Callable[[], None] = lambda: None, recipe: Recipe | None = None) -> Outcome:
        """Train from the weights and with the batches of a seed; `tick` is called after each step.

        recipe: chooses the arithmetic of the steps; without it, they run in that of the block around this call, as the
        held-out data always do. torch computes losses and quality from the logits in binary64: computed in the
        arithmetic, they would show its errors in this sum beside those of the network.
        """
        start = time.process_time()
        torch.manual_seed(seed)
        self.model.load_state_dict(self.task.model().state_dict())
        for state in self.optimizer.state.values():
            state["momentum_buffer"].zero_()
        self.model.train()
        losses = []
        for x, y in islice(self.task.batches(seed), self.task.steps):
            with recipe or contextlib.nullcontext():
                logits = self.step(x, y)
            losses.append(float(F.cross_entropy(logits.double(), y)))
            if recipe is not None:
                recipe.update(losses[-1])
            tick()
        points = np.array_split(losses, min(POINTS, len(losses)))
        return Outcome(self.quality(), [float(part.mean()) for part in points], time.process_time() - start)

    def quality(self) -> float:
        """Return the quality on held-out data, with the weights as they are."""
        self.model.eval()
        logits = torch.cat([self._predict(x) for x, _ in self._held_out]).double()
        self.model.train()
        return self.task.score(logits, torch.cat([y for _, y in self._held_out]))
