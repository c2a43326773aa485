"""One training run in 16 bits, with or without a dynamic loss scale, and the denormals in it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch
from networks import Inputs, Task
from torch import Tensor

import numc
from numc.train import DenormalMonitor

KINDS = ("activations", "weights", "gradients")
"""Kinds of tensors of a layer: its inputs, its weights, and the gradients of what it returns."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    losses: of every step, without the factors that scale it. skipped: the steps that were taken again with half the
    loss scale. denormals, flushed: by layer, then kind of tensor, the largest fraction in any observed step. curves: by
    layer, the fraction of denormals among its gradients in every observed step.
    """

    losses: list[float]
    skipped: int
    denormals: dict[str, dict[str, float]]
    flushed: dict[str, dict[str, float]]
    curves: dict[str, list[float]]
    cpu_seconds: float


class Trainer:
    """Trains the network of a task, once for each run; torch traces it only once."""

    def __init__(self, task: Task) -> None:
        """Prepare a task."""
        self.task = task
        self.model = task.model()
        self._call = torch.compile(self.model, backend=numc.backend())

    def run(self, seed: int, arithmetic: str, scaled: bool, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train from the weights and with the batches of a seed, in the arithmetic that is a policy's text.

        scaled: with Backoff from 2^24. A step that it skips is taken again with the same batch, until the scale is 1:
        in some hundred steps, twenty skipped ones would be seen in the loss.
        """
        start = time.process_time()
        torch.manual_seed(seed)
        self.model.load_state_dict(self.task.model().state_dict())
        self.model.train()
        optimizer = self.task.optimizer(self.model.parameters())
        scale = numc.DynamicLossScale(2.0**24) if scaled else None
        monitor = DenormalMonitor()
        losses = []
        with numc.arithmetic(policy=arithmetic):
            for number, (inputs, target) in enumerate(islice(self.task.inputs(seed), self.task.steps)):
                observed = number % self.task.every == 0
                while True:
                    with monitor if observed else contextlib.nullcontext():
                        loss = self._gradients(inputs, target, optimizer, scale)
                    if self._update(optimizer, scale) or not scale or scale.get_scale() <= 1:
                        break
                losses.append(loss)
                tick()
                if not math.isfinite(loss):
                    break
        return Outcome(
            losses,
            scale.skipped if scale else 0,
            _maxima(monitor, "rounded_subnormals"),
            _maxima(monitor, "flushed"),
            _curves(monitor),
            time.process_time() - start,
        )

    def _gradients(
        self, inputs: Inputs, target: Tensor, optimizer: torch.optim.Optimizer, scale: numc.DynamicLossScale | None
    ) -> float:
        """Run a step up to the update, and return the loss. torch computes the loss itself, in fp32."""
        optimizer.zero_grad()
        loss = self.task.loss(self._call(*inputs), target)
        small = loss * self.task.smaller
        (scale.scale(small) if scale else small).backward()
        return float(loss.detach())

    def _update(self, optimizer: torch.optim.Optimizer, scale: numc.DynamicLossScale | None) -> bool:
        """Free the gradients from all factors and update the weights. Return whether they were updated."""
        if scale:
            scale.unscale_(optimizer)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad.div_(self.task.smaller)
        if not scale:
            optimizer.step()
            return True
        before = scale.skipped
        scale.step(optimizer)
        scale.update()
        return scale.skipped == before


def _tensors(monitor: DenormalMonitor) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return the names of the monitor's tensors, by layer and kind, of layers that have weights.

    The rows of a layer have its path in the module, and what is behind a slash: ``lstm/mm_5``, ``lstm/wgrad_2``.
    """
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for row in monitor.rows[0].statistics.rows if monitor.rows else ():
        layer = row.layer.partition("/")[0]
        kinds = {("forward", "a"): KINDS[0], ("forward", "b"): KINDS[1], ("wgrad", "a"): KINDS[2]}
        for tensor in row.tensors:
            if kind := kinds.get((row.role, tensor)):
                found.setdefault(layer, {}).setdefault(kind, []).append((row.layer, tensor))
    return {layer: tensors for layer, tensors in found.items() if KINDS[2] in tensors}


def _maxima(monitor: DenormalMonitor, count: str) -> dict[str, dict[str, float]]:
    peaks = monitor.maxima(count)
    return {
        layer: {kind: max(peaks[name].fraction for name in names) for kind, names in tensors.items()}
        for layer, tensors in _tensors(monitor).items()
    }


def _curves(monitor: DenormalMonitor) -> dict[str, list[float]]:
    """Return the fraction of denormals among the gradients of every layer, in every observed step."""
    found = {}
    for layer, tensors in _tensors(monitor).items():
        curves = [list(monitor.curve(*name).values()) for name in tensors[KINDS[2]]]
        found[layer] = [round(max(step), 4) for step in zip(*curves, strict=True)]
    return found
