"""One training run under some of TrainBF's techniques, from one seed."""

from __future__ import annotations

import copy
import functools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from tasks import Task
from torch import Tensor

import numc
from numc.train import TrainBF, layer_errors
from numc.train.trainbf.errors import layer_results

PART = 4
"""A run is this part of a training: its first quarter, in which R goes from 1 to 2.5."""
BF16 = "bf16_1_1 with ops=bf16"
FP32_UPDATE = f"{BF16} update=fp32"
NONE = {"range": False, "weights": False, "scale": False}
RANGE = {**NONE, "range": True}
WEIGHTS = {**RANGE, "weights": True}
ALL = {**WEIGHTS, "scale": True}


@dataclass(frozen=True)
class Variant:
    """What is compared: techniques, and an arithmetic."""

    techniques: Mapping[str, bool]
    arithmetic: str


VARIANTS = {
    "fp32": Variant(NONE, "fp32"),
    "none": Variant(NONE, BF16),
    "range": Variant(RANGE, BF16),
    "range + weights": Variant(WEIGHTS, BF16),
    "all": Variant(ALL, BF16),
    "none, fp32 update": Variant(NONE, FP32_UPDATE),
    "all, fp32 update": Variant(ALL, FP32_UPDATE),
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    accuracy: on held-out data, in percent. loss: the mean of the last tenth of the steps. error: the relative error of
    the last layer on held-out data. exponents: the number of different exponents in a tensor of a contraction, the mean
    over all tensors of a training step. utilisation: of the bits of bfloat16, (H(sign) + H(exponent) + 7) / 16 of the
    results of contractions. R: the mean over the norms. scale: log2 of the loss scale. All are those of the end.
    """

    accuracy: float
    loss: float
    error: float
    exponents: float
    utilisation: float
    R: float
    scale: float
    cpu_seconds: float


class Trainer:
    """Trains the network of a task under one choice of techniques, once for each run; torch traces a step only once."""

    def __init__(self, task: Task, techniques: Mapping[str, bool]) -> None:
        self.task, self.techniques = task, techniques
        (self._batch, _) = next(task.batches(0))
        self.model, self.optimizer, self.recipe = self._fresh(0)
        model, optimizer, recipe = self.model, self.optimizer, self.recipe
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        self._start = copy.deepcopy(recipe.state_dict())

        def step(y: Tensor, *x: Tensor) -> Tensor:
            optimizer.zero_grad()
            logits = model(*x)
            recipe.scaled(F.cross_entropy(logits, y)).backward()
            recipe.step_optimizer()
            return logits.detach()

        def predict(*x: Tensor) -> Tensor:
            with torch.no_grad():
                return model(*x)

        compiled = torch.compile(backend=numc.backend())
        self._step, self._predict = compiled(step), compiled(predict)

    def _fresh(self, seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer, TrainBF]:
        torch.manual_seed(seed)
        model = self.task.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=self.task.rate, momentum=0.9)
        layers = self.task.layers if self.techniques["range"] else None
        recipe = TrainBF(model, optimizer, self._batch, steps=PART * self.task.steps, layers=layers, **self.techniques)
        return model, optimizer, recipe

    def run(self, seed: int, arithmetic: str) -> Outcome:
        """Train from the weights and with the batches of a seed, in an arithmetic.

        The loss is computed from the logits in binary64.
        """
        start = time.process_time()
        self.model.load_state_dict(self._fresh(seed)[0].state_dict())
        for state in self.optimizer.state.values():
            state["momentum_buffer"].zero_()
        self.recipe.load_state_dict(self._start)
        name, _, roles = arithmetic.partition(" with ")
        chosen = dict(role.split("=") for role in roles.split())
        self.model.train()
        losses = []
        for x, y in islice(self.task.batches(seed), self.task.steps):
            with self.recipe, numc.arithmetic(name, **chosen):
                logits = self._step(y, *x)
            losses.append(float(F.cross_entropy(logits.double(), y)))
            self.recipe.update(losses[-1])
        self.model.eval()
        held, labels = self.task.held_out()
        run = functools.partial(self._predict, *held)
        with numc.arithmetic(name, **chosen):
            right = self._predict(*held).argmax(1) == labels
        values = np.concatenate([v.reshape(-1) for v in layer_results(run, arithmetic).values()])
        error = _last(layer_errors(run))
        ranges, scale = list(self.recipe.ranges.values()), self.recipe.loss_scale
        self.model.train()
        (x, y) = next(self.task.batches(seed + 1000))
        with numc.collect_stats("exponents") as collected, self.recipe, numc.arithmetic(name, **chosen):
            self._step(y, *x)
        tensors = [t for row in collected.statistics.rows for t in row.tensors.values()]
        return Outcome(
            100 * float(right.double().mean()),
            float(np.mean(losses[-max(1, len(losses) // 10) :])),
            error,
            float(np.mean([t.ranges_used for t in tensors])),
            utilisation(values),
            float(np.mean(ranges)) if ranges else 1.0,
            0.0 if scale is None else math.log2(scale.scale),
            time.process_time() - start,
        )


def chosen_layers(task: Task, threshold: float) -> list[str]:
    """Return the layers that the layer modifier chooses at a threshold, for the weights of seed 0."""
    torch.manual_seed(0)
    model = task.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=task.rate)
    (batch, _) = next(task.batches(0))
    return list(TrainBF(model, optimizer, batch, threshold, steps=PART * task.steps).layers)


def _last(errors: Mapping[str, float]) -> float:
    """Return the error of the last module that has a path of its own: a product of activations has none."""
    return [error for path, error in errors.items() if "." in path][-1]


def utilisation(values: np.ndarray) -> float:
    """Return (H(sign) + H(exponent) + 7) / 16 of the finite values that are not zero, entropies in bits."""
    some = values[np.isfinite(values) & (values != 0)]
    if not some.size:
        return 0.0
    return (_entropy(np.signbit(some)) + _entropy(np.frexp(some)[1]) + 7) / 16


def _entropy(symbols: np.ndarray) -> float:
    shares = np.unique(symbols, return_counts=True)[1] / symbols.size
    return float(-(shares * np.log2(shares)).sum())
