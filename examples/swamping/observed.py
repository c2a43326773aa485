"""One training of three epochs, all steps of which are observed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch
from networks import Task

import numc
from numc.train import EpochStatistics

EPOCHS = 3
BITS = tuple(range(1, 25))
ROLES = ("all", "forward", "dgrad", "wgrad")
DENOMINATORS = ("all", "nonzero")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    curves: by denominator (all additions, or those of two numbers other than zero), then by role, then by epoch, the
    fraction of additions without swamping at 1 to 24 bits. losses: of every step.
    """

    curves: dict[str, dict[str, list[list[float]]]]
    losses: list[float]
    cpu_seconds: float


def observe(task: Task, arithmetic: str, seed: int, tick: Callable[[], None] = lambda: None) -> Outcome:
    """Train the network of a task, and count a sample of 1/16 of the additions. Raises NumcError.

    All steps are observed: in so short a training, that costs less than to compile programs that do not count.
    """
    start = time.process_time()
    torch.manual_seed(seed)
    model = task.model()
    optimizer = task.optimizer(model.parameters())
    compiled = torch.compile(model, backend=numc.backend(arithmetic))
    statistics = EpochStatistics("1/16", every=1, what="swamping")
    losses = []
    for number, (inputs, target) in enumerate(islice(task.inputs(seed), task.steps)):
        statistics.epoch(number * EPOCHS // task.steps)
        optimizer.zero_grad()
        with statistics:
            loss = task.loss(compiled(*inputs), target)
            loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        tick()
    curves = {
        denominator: {
            role: [
                [
                    found.without_swamping(k, nonzero=denominator == "nonzero", role=None if role == "all" else role)
                    for k in BITS
                ]
                for found in statistics.epochs().values()
            ]
            for role in ROLES
        }
        for denominator in DENOMINATORS
    }
    return Outcome(curves, losses, time.process_time() - start)
