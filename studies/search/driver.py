"""The loop of a search: evaluates what a sampler proposes, each distinct set of bits once, and keeps the outcomes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from numc.numerics.policy.layer import Layer
from numc.numerics.policy.policy import Decision
from numc.numerics.policy.text import parse_policy
from numc.studies.search.evaluation import FP32, SPLITS, Answer
from numc.studies.search.journal import Journal
from numc.studies.search.samplers.interface import Outcome, Problem, Sampler, within
from numc.studies.search.space import Candidate
from numc.support.errors import NumcError

#: Yields the number of each policy and its answer on a split, as they come.
Evaluate = Callable[[Sequence[str], str], Iterator[tuple[int, Answer]]]
#: Called with the number of evaluations so far, and the best candidate or None.
Told = Callable[[int, "Trial | None"], None]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A candidate that was evaluated.

    number: its place in the order of proposals. value: of the metric on the samples of the search. cost, worse, holds:
    see Outcome. error: why there is no value, or "".
    """

    number: int
    candidate: Candidate
    cost: float
    value: float
    worse: float
    holds: bool
    error: str = ""


def decided(layers: Sequence[Layer], policy: str) -> list[Decision]:
    """Return the arithmetic of every layer under the text of a policy. Raises NumcError if it does not fit."""
    return parse_policy(policy).decide(layers)


def bits_of(decisions: Sequence[Decision]) -> str:
    """Return a hash of what is computed: equal for policies that give equal bits, however they are written."""
    said = [
        (str(d.fma) if d.layer.multiplies else "", str(d.ops), d.bias) if d.layer.computes else () for d in decisions
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


class Driver:
    """Runs samplers. best: "max" or "min", whichever is better of the metric. told: see Told."""

    def __init__(
        self, layers: Sequence[Layer], evaluate: Evaluate, journal: Journal, best: str, told: Told | None = None
    ) -> None:
        self._layers, self._evaluate, self._journal, self._best, self._told = layers, evaluate, journal, best, told
        self.trials: dict[Candidate, Trial] = {}

    def value(self, policy: str, split: str) -> float:
        """Return the metric under a policy. Raises NumcError if it cannot be evaluated."""
        (answer,) = self._answers([policy], split)
        if answer.error:
            raise NumcError(answer.error)
        return answer.value

    def run(self, problem: Problem, sampler: Sampler) -> None:
        """Let a sampler search; its trials are in `trials`. Raises NumcError if fp32 itself cannot be evaluated."""
        fp32 = self.value(FP32, SPLITS[0])
        if not math.isfinite(fp32):
            raise NumcError(
                f"search: the metric is {fp32} in fp32 itself: no arithmetic can be within a tolerance of it"
            )
        asking = sampler(problem)
        proposed = next(asking, None)
        while proposed is not None and (problem.trials is None or len(self.trials) < problem.trials):
            self._try(problem, [c for c in dict.fromkeys(proposed) if c not in self.trials], fp32)
            outcomes = [_outcome(self.trials[candidate]) for candidate in proposed]
            try:
                proposed = asking.send(outcomes)
            except StopIteration:
                break

    def best(self, problem: Problem, *, uniform: bool = False) -> Trial | None:
        """Return the cheapest trial within the tolerance; of equal ones, that with the fewest bits, then the first.

        uniform: only among the trials in which all groups have the same choice.
        """
        held = (trial for trial in self.trials.values() if trial.holds)
        return min(
            (trial for trial in held if not uniform or len(set(trial.candidate)) == 1),
            key=lambda trial: (trial.cost, problem.space.size(trial.candidate), trial.number),
            default=None,
        )

    def _try(self, problem: Problem, candidates: Sequence[Candidate], fp32: float) -> None:
        answers = self._answers([problem.space.policy(c) for c in candidates], SPLITS[0])
        for candidate, answer in zip(candidates, answers, strict=True):
            worse = fp32 - answer.value if self._best == "max" else answer.value - fp32
            worse = math.inf if math.isnan(worse) else worse
            holds = within(worse, problem.tolerance)
            trial = Trial(
                number=len(self.trials),
                candidate=candidate,
                cost=problem.price(candidate),
                value=answer.value,
                worse=worse,
                holds=holds,
                error=answer.error,
            )
            self.trials[candidate] = trial
        if self._told is not None:
            self._told(len(self.trials), self.best(problem))

    def _answers(self, policies: Sequence[str], split: str) -> list[Answer]:
        """Return the answers to policies, of which each distinct set of bits is evaluated once and kept at once."""
        keys = [self._key(policy, split) for policy in policies]
        new = {key: policy for key, policy in zip(keys, policies, strict=True) if key not in self._journal}
        order = list(new)
        for number, answer in self._evaluate(list(new.values()), split):
            key = order[number]
            self._journal.put(key, answer, {"split": split, "policy": new[key], "error": answer.error})
        return [self._journal[key] for key in keys]

    def _key(self, policy: str, split: str) -> str:
        return f"{split} {bits_of(decided(self._layers, policy))}"


def _outcome(trial: Trial) -> Outcome:
    return Outcome(trial.candidate, trial.cost, trial.worse, trial.holds)
