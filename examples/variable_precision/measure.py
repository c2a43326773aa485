"""A network that is trained in fp32, from one seed, and what it gives in the arithmetic of the thesis."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import published
import torch
import torch.nn.functional as F  # noqa: N812
import weight_widths
from networks import Task
from torch import Tensor, nn

import numc

OPEN = "e1..8m1..23"
OPERATOR = f"fma(a={OPEN}:rtz, b={OPEN}:rtz, product={OPEN}, acc=fp32)"
"""Operands are truncated, products rounded to nearest, and sums are in fp32. Each run chooses the widths."""
FORMAT = "fma(a={0}:rtz, b={0}:rtz, product={0}, acc={0})"
"""That of table 6.1, in which sums are rounded to the format, too. It is fixed, so that every format is a program."""
OTHERS = {
    "mlp": {"products truncated": "fma(a=e5m7:rtz, b=e5m7:rtz, product=e5m7:rtz, acc=fp32)"},
    "cnn": {"operands rounded": "fma(a=e3m7, b=e3m7, product=e3m7, acc=fp32)"},
}
"""Roundings that the thesis does not have, which tell why a network fails: in e5m7 and e3m7."""
NARROW = "standard"
"""The experiment with that operator."""

Cell = list[Any]
"""Of the held-out images: per cent that are right, the error of the logits, and the number of images with a NaN.

A NaN counts as the largest logit, as in numpy. The error is sum((x - r)^2) / sum(r^2) of the logits x against the fp32
logits r, and None if they are not finite.
"""


@dataclass(frozen=True)
class Outcome:
    """What a network gives. accuracy: in fp32, in per cent. wide, narrow: by widths; sums in fp32, or in the format.

    others: by OTHERS. exponents, significands: how many weights need so many bits.
    """

    accuracy: float
    wide: dict[str, Cell]
    narrow: dict[str, Cell]
    others: dict[str, Cell]
    exponents: dict[str, int]
    significands: dict[str, int]
    cpu_seconds: float


class Trainer:
    """Trains the network of a task by Adam, once for each seed, in numc's fp32; torch traces a step only once."""

    def __init__(self, task: Task) -> None:
        """Prepare a task."""
        self.task, self.model = task, task.model()
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=task.rate, weight_decay=task.decay)
        model, optimizer = self.model, self._optimizer

        def step(x: Tensor, y: Tensor) -> None:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        compiled = torch.compile(backend=numc.backend("fp32", strict=True))
        self._step, self._predict = compiled(step), compiled(lambda x: model(x))

    def train(self, seed: int, tick: Callable[[], None] = lambda: None) -> nn.Module:
        """Train the network from the weights and with the batches of a seed, and return it."""
        torch.manual_seed(seed)
        self.model.load_state_dict(self.task.model().state_dict())
        for state in self._optimizer.state.values():
            for value in state.values():
                value.zero_()
        for number, (x, y) in enumerate(islice(self.task.batches(seed), self.task.steps)):
            for group in self._optimizer.param_groups:
                group["lr"] = self.task.rate * (1 + math.cos(math.pi * number / self.task.steps)) / 2
            self._step(x, y)
            tick()
        return self.model

    def run(self, seed: int, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train the network from a seed, and judge it in all formats that the thesis has."""
        start = time.process_time()
        model = self.train(seed, tick)
        with torch.no_grad():
            exact = self._predict(self.task.held_out()[0]).numpy()
        names = {name: published.PERCENT[name][self.task.name] for name in published.PERCENT}
        wide = Net(self.task, model, exact).wide_sums(
            label for name in names if name != NARROW for label in names[name]
        )
        narrow = {label: with_format(self.task, model, exact, label) for label in names[NARROW]}
        others = {label: fixed(self.task, model, exact, fma=fma) for label, fma in OTHERS[self.task.name].items()}
        weights = np.concatenate([value.detach().numpy().reshape(-1) for value in model.parameters()])
        return Outcome(
            judged(self.task, exact, exact)[0],
            wide,
            narrow,
            others,
            weight_widths.counts(weight_widths.exponent_bits(weights)),
            weight_widths.counts(weight_widths.significand_bits(weights)),
            time.process_time() - start,
        )


class Net:
    """A network with widths that a run chooses. exact: its logits in fp32."""

    def __init__(self, task: Task, model: nn.Module, exact: npt.NDArray[np.float32]) -> None:
        """Compile the network."""
        self.task, self.exact, self.program = task, exact, compiled(model, fma=OPERATOR)
        self.layers = tuple(dict.fromkeys(entry.layer for entry in self.program.widths))

    def wide_sums(self, labels: Iterable[str]) -> dict[str, Cell]:
        """Return the results in some widths: `eXmY`, or `eXmY-Y-Y` with a Y for each layer."""
        images = self.task.held_out()[0].numpy()
        found = {label: self.program(images, widths=self.widths(label)) for label in labels}
        return {label: judged(self.task, np.asarray(logits), self.exact) for label, logits in found.items()}

    def widths(self, label: str) -> Mapping[str, tuple[int, int]]:
        """Return the exponent and significand bits of each layer."""
        exponent, significands = label.removeprefix("e").split("m")
        bits = significands.split("-")
        bits = bits * len(self.layers) if len(bits) == 1 else bits
        return {layer: (int(exponent), int(n)) for layer, n in zip(self.layers, bits, strict=True)}


def with_format(task: Task, model: nn.Module, exact: npt.NDArray[np.float32], name: str) -> Cell:
    """Return the result if sums are rounded to the format, and the results of all other operations as well."""
    return fixed(task, model, exact, fma=FORMAT.format(name), ops=name)


def fixed(task: Task, model: nn.Module, exact: npt.NDArray[np.float32], **arithmetic: str) -> Cell:
    """Return the result in an arithmetic without open widths."""
    return judged(task, np.asarray(compiled(model, **arithmetic)(task.held_out()[0].numpy())), exact)


def compiled(model: nn.Module, **arithmetic: str) -> Any:
    """Return the program of a network for any number of images."""
    batch = torch.export.Dim("batch")
    return numc.compile(model, (torch.zeros(2, 784),), dynamic_shapes=({0: batch},), **arithmetic)


def judged(task: Task, found: npt.NDArray[np.float32], exact: npt.NDArray[np.float32]) -> Cell:
    """Return what logits say of the held-out images."""
    error = None
    if np.isfinite(found).all():
        r = exact.astype(np.float64)
        error = float(((found - r) ** 2).sum() / (r**2).sum())
    right = float((found.argmax(1) == task.held_out()[1].numpy()).mean())
    return [100 * right, error, int(np.isnan(found).any(1).sum())]
