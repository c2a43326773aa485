"""A search for formats during one training, and controls: other formats of the same cost, and the found ones again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from arms import BASE, Arm
from problems import Pictures
from training import Outcome, Trainer

from numc.numerics.grammar import parse_fma
from numc.train import OneShotSearch, Static

SEARCH = "one-shot search"
AGAIN = "the formats that it found, from the start"
RANDOM = "other formats of the same cost, from the start"
REST = "role update, norm, softmax fp32; role dgrad, wgrad a=bf16"


@dataclass(frozen=True)
class SearchPictures(Pictures):
    """The task. formats: what layers choose from. cost: what is aimed at, of the cost of the last format."""

    steps: int = 400
    formats: tuple[str, ...] = tuple(f"bfp(16,3,{m})" for m in (1, 2, 3, 4))
    cost: float = 0.25
    name: ClassVar[str] = "mnist"


SEARCHES = (SearchPictures(),)


class SearchTrainer(Trainer):
    """Trains a task in fp32, by the search, in each format alone, and with what the search of the same seed found."""

    ARMS: ClassVar[tuple[str, ...]] = (BASE, SEARCH, AGAIN, RANDOM, *SEARCHES[0].formats)

    def __init__(self, task: SearchPictures) -> None:
        """Prepare a task."""
        super().__init__(task)
        self.task: SearchPictures = task
        self._searched: dict[int, OneShotSearch] = {}

    def run(self, name: str, seed: int, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train and judge as `Trainer.run`; before what depends on it, by the search, unless that has been done."""
        if name in (AGAIN, RANDOM) and seed not in self._searched:
            self.run(SEARCH, seed)
        return super().run(name, seed, tick)

    def arm(self, name: str, seed: int) -> Arm:
        """Return an arm; those with formats of the search need it to have been done."""
        if name == SEARCH:
            search = self._searched[seed] = OneShotSearch(
                self.task.steps, self.task.formats, cost=self.task.cost, seed=seed
            )
            return Arm(lambda task, seed: search)
        if name in (AGAIN, RANDOM):
            search = self._searched[seed]
            chosen = search.chosen if name == AGAIN else others(search, seed)
            return Arm(lambda _, seed: Static(with_formats(search, chosen), seed=seed))
        form = name if name == BASE else f"default fma=fma(a={name},acc=fp32); {REST}"
        return Arm(lambda _, seed: Static(form, seed=seed))


def others(search: OneShotSearch, seed: int) -> dict[str, str]:
    """Return formats that the search did not choose, whose cost is within a twentieth of its, by a draw of the seed.

    If there are none, those of the next cost.
    """
    chosen, cost = search.chosen, search.cost_of(search.chosen)
    formats = tuple(next(iter(search.probabilities.values())))
    every = [dict(zip(chosen, each, strict=True)) for each in product(formats, repeat=len(chosen))]
    apart = [(abs(search.cost_of(each) / cost - 1), each) for each in every if each != chosen]
    least = max(0.05, min(distance for distance, _ in apart))
    near = [each for distance, each in apart if distance <= least]
    return near[int(np.random.default_rng([seed, 3]).integers(len(near)))]


def with_formats(search: OneShotSearch, formats: Mapping[str, str]) -> str:
    """Return the policy of a search with other formats."""
    lines = search.training_policy.splitlines()
    for layer, form in formats.items():
        lines = [
            re.sub(r"fma\(a=.*(?=, acc)", f"fma(a={form}", line) if f'"{layer}"' in line else line for line in lines
        ]
    return "\n".join(lines)


def cost(outcome: Outcome, task: SearchPictures) -> float:
    """Return what the formats of the forward pass of a training cost, which is not the search, of the last format."""
    bits = {str(parse_fma(f"fma(a={form},acc=fp32)")): int(re.findall(r"\d+", form)[-1]) ** 2 for form in task.formats}
    counts = {operator: count for operator, count in outcome.fmas.items() if operator in bits}
    spent = sum(count * bits[operator] for operator, count in counts.items())
    return spent / sum(counts.values()) / max(bits.values())
