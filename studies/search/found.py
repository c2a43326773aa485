"""The outcome of a search: the record that numc.search returns."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numc.studies.metrics import METRICS, Metric
from numc.studies.search.driver import Trial
from numc.studies.search.samplers.interface import within
from numc.studies.search.space import Space
from numc.support import notebook
from numc.support.environment import in_default_environment
from numc.support.json_values import json_values

EVALUATED = Metric("evaluate", "what the function returns; larger is better")
"""The metric of a function of the user's."""


def metric_of(name: str) -> Metric:
    """Return a metric of numc.compare, or that of a function of the user's."""
    return METRICS.get(name, EVALUATED)


@dataclass(frozen=True)
class Row:
    """An arithmetic that is evaluated on both splits. search, report: the metric on a split.

    cost: of the objective; None if fp32 has no such cost, such as passes.
    """

    name: str
    cost: float | None
    search: float
    report: float


@in_default_environment
@dataclass(frozen=True, kw_only=True)
class Search:
    """The outcome of a search.

    model: its name. settings: of the search, by name: objective, machine, metric, tolerance, sampler, seed and others.
    space: what was searched. samples: by split. rows: fp32; the cheapest choice for all groups and the cheapest of all,
    as far as they are within the tolerance. policy: the text of the latter, "" if nothing is within the tolerance.
    best: its trial. trials: all candidates that were evaluated, in the order of proposals. shares: by group, its share
    of the multiply-adds. commands: lines that repeat the search.
    """

    model: str
    settings: Mapping[str, Any]
    space: Space
    samples: Mapping[str, int]
    rows: tuple[Row, ...]
    policy: str
    best: Trial | None
    trials: tuple[Trial, ...]
    shares: Mapping[str, float]
    commands: tuple[str, ...] = ()

    @property
    def metric(self) -> Metric:
        """The metric that is kept."""
        return metric_of(self.settings["metric"])

    def ratio(self, cost: float | None) -> float | None:
        """Return a cost as a fraction of that of fp32, None if there is none."""
        fp32 = self.rows[0].cost
        return cost / fp32 if cost is not None and fp32 else None

    def front(self) -> tuple[Trial, ...]:
        """Return the trials that are better than every cheaper one, the cheapest first."""
        front: list[Trial] = []
        for trial in sorted(self.trials, key=lambda trial: (trial.cost, trial.worse, trial.number)):
            if math.isfinite(trial.worse) and (not front or trial.worse < front[-1].worse):
                front.append(trial)
        return tuple(front)

    def steps(self) -> tuple[Trial, ...]:
        """Return the trials that were the cheapest within the tolerance when they were evaluated."""
        steps: list[Trial] = []
        for trial in self.trials:
            if trial.holds and (not steps or trial.cost < steps[-1].cost):
                steps.append(trial)
        return tuple(steps)

    def missed(self) -> float | None:
        """Return by how much the policy is worse on the report split, if that is more than the tolerance."""
        fp32, last = self.rows[0].report, self.rows[-1].report
        worse = fp32 - last if self.metric.best == "max" else last - fp32
        return None if self.best is None or within(worse, self.settings["tolerance"]) else worse

    def values(self, trial: Trial) -> dict[str, dict[str, str]]:
        """Return the values of a trial, by group and axis."""
        groups = zip(self.space.groups, trial.candidate, strict=True)
        return {group.name: self.space.values(choice) for group, choice in groups}

    def _repr_html_(self) -> str:
        """Return what a notebook shows: fp32 and what was found, and the policy."""
        objective, metric = self.settings["objective"], self.metric
        columns = ("arithmetic", objective, "of fp32's", f"{metric.name}, search split", f"{metric.name}, report split")
        rows = [
            (
                row.name,
                "-" if row.cost is None else f"{row.cost:,.6g}",
                "-" if (ratio := self.ratio(row.cost)) is None else f"{ratio:.3g}",
                metric.text(row.search),
                metric.text(row.report),
            )
            for row in self.rows
        ]
        policy = "; ".join(filter(None, self.policy.split("\n"))) or "nothing is within the tolerance"
        return notebook.card(
            os.path.basename(self.model),
            notebook.table(columns, rows),
            notebook.note(policy),
            about=f"searched: {len(self.trials)} candidates",
        )

    def as_json(self) -> dict[str, Any]:
        """Return the search in types that JSON has; numbers that are not finite are strings."""
        trials = [
            {"number": t.number, "cost": t.cost, "value": t.value, "worse": t.worse, "holds": t.holds, "error": t.error,
             "values": self.values(t)}
            for t in self.trials
        ]  # fmt: skip
        return json_values(  # type: ignore[no-any-return]
            {
                "model": self.model,
                "settings": self.settings,
                "samples": self.samples,
                "rows": [vars(row) for row in self.rows],
                "policy": self.policy,
                "best": None if self.best is None else self.best.number,
                "front": [trial.number for trial in self.front()],
                "trials": trials,
            }
        )
