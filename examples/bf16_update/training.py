"""One training from one seed, whose update is that of SGD with momentum, or the same with Kahan's compensation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import settings
import torch
import torch.nn.functional as F  # noqa: N812
from optimizer import Sgd
from tasks import Images
from torch import Tensor

import numc
from numc.train import Static

POINTS = 50
"""Of a curve of losses, at most: each is the mean over some steps."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    quality: per cent of held-out images. held_out_loss: their mean cross entropy. losses: of the training.
    """

    quality: float
    held_out_loss: float
    losses: list[float]
    cpu_seconds: float


class Trainer:
    """Trains the network of a task, once for each run; torch traces each of the two updates only once."""

    def __init__(self, task: Images) -> None:
        """Prepare a task."""
        self.task, self.model = task, task.model()
        self._optimizers = {
            kahan: Sgd(self.model.parameters(), rate=task.rate, momentum=task.momentum, kahan=kahan)
            for kahan in (False, True)
        }
        compiled = torch.compile(backend=numc.backend())
        self._steps = {kahan: compiled(self._step_of(optimizer)) for kahan, optimizer in self._optimizers.items()}
        self._predict = compiled(self.model)
        self.model.train()

    def _step_of(self, optimizer: Sgd) -> Callable[[Tensor, Tensor], Tensor]:
        model = self.model

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            logits = model(x)
            F.cross_entropy(logits, y).backward()
            optimizer.step()
            return logits.detach()

        return step

    def run(self, name: str, seed: int, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train in an arithmetic of settings.ARMS, from the weights and with the batches of a seed, and judge it.

        torch computes losses from the logits in binary64, so that they show the errors of the network alone.
        """
        start = time.process_time()
        torch.manual_seed(seed)
        self.model.load_state_dict(self.task.model().state_dict())
        arm = settings.ARMS[name]
        self._optimizers[arm.kahan].clear()
        recipe, losses = Static(arm.policy, seed=seed), []
        for x, y in islice(self.task.batches(seed), self.task.steps):
            with recipe:
                logits = self._steps[arm.kahan](x, y)
            losses.append(float(F.cross_entropy(logits.double(), y)))
            recipe.update(losses[-1])
            tick()
        images, digits = self.task.held_out()
        self.model.eval()
        with recipe, torch.no_grad():
            logits = self._predict(images).double()
        self.model.train()
        right = float((logits.argmax(1) == digits).double().mean())
        points = np.array_split(losses, min(POINTS, len(losses)))
        return Outcome(
            100 * right,
            float(F.cross_entropy(logits, digits)),
            [float(part.mean()) for part in points],
            time.process_time() - start,
        )
