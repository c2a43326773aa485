"""Controls for dynamic precision: as many blocks of steps in the low arithmetic, at times that no loss has chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from arms import Arm
from problems import Pictures
from training import Outcome, Trainer

from numc.train import DynamicPrecision, Schedule, Static

HIGH = "mp"
DYNAMIC = "dynamic precision"


@dataclass(frozen=True)
class SwitchPictures(Pictures):
    """The task. low: an arithmetic that costs accuracy here. block, threshold: of dynamic precision."""

    low: str = "fmac(e8m3) with update=fp32 norm=fp32"
    block: int = 10
    threshold: float = 0.04
    name: ClassVar[str] = "mnist"


SWITCHES = (SwitchPictures(), SwitchPictures(low="fmac(e8m2) with update=fp32 norm=fp32"))
Places = Callable[[int, int, int], list[bool]]
"""Of the number of blocks, of those in the low arithmetic, and of the seed: which of them they are."""


def _random(blocks: int, low: int, seed: int) -> list[bool]:
    chosen = np.random.default_rng([seed, 2]).permutation(blocks)[:low]
    return [block in chosen for block in range(blocks)]


PLACES: Mapping[str, Places] = MappingProxyType(
    {
        "random blocks": _random,
        "evenly spread blocks": lambda blocks, low, seed: [
            (n + 1) * low // blocks > n * low // blocks for n in range(blocks)
        ],
        "the first blocks": lambda blocks, low, seed: [n < low for n in range(blocks)],
        "the last blocks": lambda blocks, low, seed: [n >= blocks - low for n in range(blocks)],
    }
)
"""Control -> the blocks that it has in the low arithmetic."""


class SwitchTrainer(Trainer):
    """Trains a task in the high arithmetic, in the low one, by dynamic precision, and by its controls.

    A control has as many blocks in the low arithmetic as dynamic precision had from the same seed. All networks are
    judged in fp32.
    """

    ARMS: ClassVar[tuple[str, ...]] = (HIGH, "low", DYNAMIC, *PLACES)

    def __init__(self, task: SwitchPictures) -> None:
        """Prepare a task."""
        super().__init__(task)
        self.task: SwitchPictures = task
        self._blocks: dict[int, int] = {}

    def run(self, name: str, seed: int, tick: Callable[[], None] = lambda: None) -> Outcome:
        """Train and judge as `Trainer.run`; before a control, by dynamic precision, unless that has been done."""
        if name in PLACES and seed not in self._blocks:
            self.run(DYNAMIC, seed)
        outcome = super().run(name, seed, tick)
        if name == DYNAMIC:
            self._blocks[seed] = round(share(outcome) * self.task.steps / self.task.block)
        return outcome

    def arm(self, name: str, seed: int) -> Arm:
        """Return an arm; a control of the seed whose blocks are known."""
        task = self.task
        if name in (HIGH, "low"):
            return Arm(lambda _, seed: Static(HIGH if name == HIGH else task.low, seed=seed), "fp32")
        if name == DYNAMIC:
            known = {"monitor": 1, "block": task.block, "threshold": task.threshold}
            return Arm(lambda _, seed: DynamicPrecision(HIGH, task.low, seed=seed, **known), "fp32")
        blocks = -(-task.steps // task.block)
        stretches, end = [], 0
        for is_low, same in groupby(PLACES[name](blocks, self._blocks[seed], seed)):
            end += len(list(same))
            stretches.append((end / blocks, task.low if is_low else HIGH))
        return Arm(lambda _, seed: Schedule(stretches, task.steps, seed=seed), "fp32")


def share(outcome: Outcome) -> float:
    """Return the share of the multiply-adds of a training that were in the low arithmetic."""
    return 1 - outcome.fmas.get(HIGH, 0) / sum(outcome.fmas.values())
