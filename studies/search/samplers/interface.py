"""The interface of samplers: what they know of a search, what they propose, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from numc.studies.search.space import Candidate, Space

PROPOSALS = 8

Ask = Generator[Sequence[Candidate], Sequence["Outcome"], None]
"""A sampler: it yields batches of candidates, gets their outcomes in the same order, and ends when it has no more.

What it proposes depends on nothing but the problem and the outcomes, so that no number of workers changes a search.
"""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The problem of a sampler. price: the cost of a candidate, which needs no evaluation. tolerance: see Outcome.

    trials: the most candidates to propose, None for no bound. proposals: how many samplers propose at once that could
    propose any number. seed: of the sampler's random numbers. errors: by group, what is known beforehand of how much
    it minds a narrow arithmetic; None if nothing is.
    """

    space: Space
    price: Callable[[Candidate], float]
    tolerance: float
    seed: int = 0
    trials: int | None = None
    proposals: int = PROPOSALS
    errors: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of the evaluation of a candidate.

    cost: its price. worse: by how much its metric is worse than that of fp32; infinite if the evaluation failed.
    holds: whether that is within the tolerance.
    """

    candidate: Candidate
    cost: float
    worse: float
    holds: bool


def within(worse: float, tolerance: float) -> bool:
    """Whether a metric is worse by at most a tolerance; a difference such as 0.98 - 0.97 has an error of its own."""
    return worse <= tolerance + 1e-12


Sampler = Callable[[Problem], Ask]
