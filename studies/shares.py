"""The share of samples that an arithmetic gets right, beside that of fp32 on the same samples, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numc.studies.uncertainty.proportions import clopper_pearson, mcnemar, paired_difference


@dataclass(frozen=True)
class Share:
    """An arithmetic gets `hits` of `count` samples right.

    gained: those of them that fp32 gets wrong; lost: samples that only fp32 gets right.
    """

    hits: int
    count: int
    gained: int
    lost: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share (Clopper and Pearson)."""
        return clopper_pearson(self.hits, self.count)

    @property
    def difference(self) -> float:
        """The share minus that of fp32."""
        return (self.gained - self.lost) / self.count

    @property
    def difference_interval(self) -> tuple[float, float]:
        """The 95 % interval of the difference to fp32, from samples on which the two differ (Bonett and Price)."""
        return paired_difference(self.gained, self.lost, self.count)

    @property
    def chance(self) -> float:
        """The probability of so uneven a difference if both are as often right (McNemar's exact test)."""
        return mcnemar(self.gained, self.lost)

    @property
    def text(self) -> str:
        """The interval of the share in per cent."""
        return " to ".join(f"{100 * end:.2f}" for end in self.interval) + "%"

    @property
    def difference_text(self) -> str:
        """The difference to fp32 and its interval, in points."""
        low, high = (f"{100 * end:+.2f}" for end in self.difference_interval)
        return f"{100 * self.difference:+.2f} ({low} to {high})"

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Share:
        """Return the share that ``dataclasses.asdict`` gave. Raises KeyError, TypeError or ValueError otherwise."""
        return cls(*(int(found[name]) for name in ("hits", "count", "gained", "lost")))
