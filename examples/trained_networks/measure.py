"""A network in an arithmetic: its answers, how right they are, and the error of its outputs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from formats import ARITHMETICS, BASE
from networks import NETWORKS, Network

import numc


@dataclass(frozen=True)
class Task:
    """The items of a network, of which results are stored. inputs: results of other inputs or models do not count."""

    name: str
    items: int
    inputs: str


@dataclass(frozen=True)
class Outcome:
    """Of every item the answer and how right it is, 0 to 1. not_finite: items with an infinite output or a NaN.

    relative_error: sum((x - r)^2) / sum(r^2) of the outputs x against those in fp32, r; None if some are not finite.
    """

    answers: list[str]
    scores: list[float]
    relative_error: float | None
    not_finite: int
    cpu_seconds: float


class Measurement:
    """A network and its programs, each of which is compiled when it is needed."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.task = Task(network.name, len(network.inputs), network.digest)
        self._program = cache(self._compile)

    def outcome(self, label: str, items: slice = slice(None)) -> Outcome:
        """Return what the arithmetic of a label gives. items: instead of all."""
        start = time.process_time()
        outputs = self._outputs(label, items)
        answers = [self.network.answer(of_item) for of_item in outputs]
        numbers = range(self.task.items)[items]
        scores = [round(self.network.score(n, answer), 6) for n, answer in zip(numbers, answers, strict=True)]
        lost = sum(not np.isfinite(of_item).all() for of_item in outputs)
        error = None
        if not lost:
            base = (self._base if items == slice(None) else self._outputs(BASE, items)).astype(np.float64)
            error = float(((outputs - base) ** 2).sum() / (base**2).sum())
        return Outcome(answers, scores, error, lost, round(time.process_time() - start, 1))

    @cached_property
    def _base(self) -> npt.NDArray[np.float32]:
        return self._outputs(BASE, slice(None))

    def _outputs(self, label: str, items: slice) -> npt.NDArray[np.float32]:
        arithmetic = ARITHMETICS[label]
        program = self._program(arithmetic.fma)
        chosen = program if arithmetic.widths is None else partial(program, widths=arithmetic.widths)
        return self.network.run(chosen, self.network.inputs[items])

    def _compile(self, fma: str | None) -> Any:
        return numc.compile(self.network.file) if fma is None else numc.compile(self.network.file, fma=fma)


@cache
def measurement(name: str) -> Measurement:
    """Return the measurement of a network, of which a process has one. Raises DataError."""
    return Measurement(NETWORKS[name]())
