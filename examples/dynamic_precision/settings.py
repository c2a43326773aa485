"""The trainings of the study: arithmetics that stay, and dynamic precision with its parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from training import Outcome, Trainer

from numc.train import DynamicPrecision, Recipe, Static, average_drop

BASE, MP = "fp32", "mp"
LOWS = {"faithful": "fase_bf16", "magnified": "fmac(e8m4) with update=fp32 norm=fp32"}
"""The low arithmetic of the thesis, and one with so few bits that a short training shows what it changes."""
SWEPT = LOWS["magnified"]
"""The low arithmetic of the sweeps."""
BLOCKS = (10, 15, 20)
FACTORS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Dynamic:
    """Dynamic precision. block: steps in the low arithmetic. factor: of the threshold that "auto" gives."""

    low: str
    high: str = MP
    block: int = 15
    factor: float = 1.0

    @property
    def name(self) -> str:
        """The name of its runs in a file of results."""
        return f"dynamic: {self.high}; {self.low}; block {self.block}; threshold x {self.factor:g}"

    def recipe(self, fall: float) -> Recipe:
        """Return the recipe. fall: by how much the average of the losses fell per step in the fp32 run of the seed."""
        return DynamicPrecision(self.high, self.low, monitor=1, block=self.block, threshold=self.factor * fall)


def of_tables(lows: list[str]) -> list[Dynamic]:
    """Return the settings of tables 6.3 and 6.4: from mp, and from fp32 (section 6.7.4)."""
    return [Dynamic(low, high) for low in lows for high in (MP, BASE)]


def of_sweeps(low: str) -> list[Dynamic]:
    """Return the settings of figures 6.6 and 6.7."""
    return [Dynamic(low, block=block, factor=factor) for block in BLOCKS for factor in FACTORS]


def run(
    trainer: Trainer, setting: str | Dynamic, seed: int, tick: Callable[[], None], reference: Outcome | None
) -> Outcome:
    """Train under a recipe. reference: the run in fp32 from this seed, which gives the threshold.

    What is measured: ``low``, the fraction of all multiply-adds in the low arithmetic, those of the update and of batch
    norm included; ``fall``, what ``threshold="auto"`` is for the losses of this run.
    """
    if isinstance(setting, Dynamic):
        assert reference is not None
        recipe = setting.recipe(reference.measured["fall"])
    else:
        recipe = Static(setting)
    found = trainer.run(seed, tick, recipe)
    losses = [decision.values["loss"] for decision in recipe.history]
    shares = recipe.fma_shares()
    low = 1 - sum(shares.get(high, 0.0) for high in (BASE, MP))
    return Outcome(
        found.quality, found.losses, found.cpu_seconds, {"low": low, "fall": average_drop(losses, monitor=1)}
    )
