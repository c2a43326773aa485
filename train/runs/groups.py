"""Groups: runs of several seeds that are shown as one, and what their last numbers say of each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numc.studies.uncertainty.paired import Interval, of_differences, of_mean
from numc.support.errors import NumcError, quoted, shortened
from numc.train.runs.origin import Origin
from numc.train.runs.read import Run


@dataclass(frozen=True)
class Row:
    """The last value of a metric in a group: its mean over the runs, and its paired difference to the first group.

    seeds: how many runs have it. difference: over the seeds that both groups have; None for the first group, and where
    they have none in common.
    """

    group: str
    metric: str
    seeds: int
    mean: Interval
    difference: Interval | None

    @property
    def cells(self) -> tuple[str, str, str]:
        """The mean, the difference and the smallest difference that could have been seen, as texts."""
        mean = f"{self.mean.mean:.4g}" + (f" ± {_half(self.mean)}" if self.seeds > 1 else "")
        if self.difference is None:
            return mean, "-", "-"
        interval = self.difference
        if interval.count < 2:
            return mean, f"{interval.mean:+.3g}", "-"
        ends = f"({interval.low:+.3g} to {interval.high:+.3g})"
        return mean, f"{interval.mean:+.3g} {ends}", f"{interval.visible:.2g}"

    def as_json(self) -> dict[str, Any]:
        """Return the row in types that JSON has."""
        return {
            "group": self.group,
            "metric": self.metric,
            "seeds": self.seeds,
            "mean": vars(self.mean),
            "difference": None if self.difference is None else vars(self.difference),
        }


def _half(interval: Interval) -> str:
    return f"{interval.half:.2g}"


def named(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs by the name of their group, in their order; runs without one have none.

    Raises NumcError if two runs of a group have the same seed, or differ in their configuration.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.origin is not None:
            groups.setdefault(run.origin.group, []).append(run)
    for group, members in groups.items():
        seeds: dict[int, str] = {}
        for run in members:
            origin = _origin(run)
            _check_configuration(group, members[0], run)
            if origin.seed is not None and seeds.setdefault(origin.seed, run.name) != run.name:
                other = seeds[origin.seed]
                raise NumcError(
                    f"{run.name}: seed {origin.seed} of group {quoted(group)}, as is {other}: leave one out"
                )
    return groups


def _check_configuration(group: str, first: Run, run: Run) -> None:
    mine, other = (dict(_origin(each).configuration) for each in (run, first))
    for name in {**other, **mine}:
        if mine.get(name) != other.get(name):
            raise NumcError(
                f"{run.name}: {quoted(name)} is {shortened(mine.get(name), 40)}, and {shortened(other.get(name), 40)} "
                f"in {first.name}, which is of group {quoted(group)}, too: want groups of one configuration"
            )


def notes(groups: Mapping[str, Sequence[Run]]) -> list[str]:
    """Return what is to be known of groups: one seed only, and versions that differ between runs."""
    texts = [
        f"group {quoted(group)} has one run: no interval and no band" for group, its in groups.items() if len(its) < 2
    ]
    every = [run for its in groups.values() for run in its]
    for package in dict.fromkeys(name for run in every for name in _origin(run).versions):
        versions = {_origin(run).versions.get(package, "none"): run.name for run in every}
        if len(versions) > 1:
            listed = ", ".join(f"{version} in {name}" for version, name in versions.items())
            texts.append(f"the runs have several versions of {package}: {listed}")
    return texts


def rows(groups: Mapping[str, Sequence[Run]], values: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the rows of a table, group by group, metric by metric.

    values: by name of the run the last finite numbers by metric, as of `last_values`. Differences are to the first
    group.
    """
    table: list[Row] = []
    first = next(iter(groups), "")
    for group, members in groups.items():
        for metric in dict.fromkeys(name for run in members for name in values[run.name]):
            mine = _by_seed(members, values, metric)
            base = _by_seed(groups[first], values, metric)
            common = [seed for seed in mine if seed in base and group != first]
            difference = of_differences([mine[s] for s in common], [base[s] for s in common]) if common else None
            its = [values[run.name][metric] for run in members if metric in values[run.name]]
            table.append(Row(group, metric, len(its), of_mean(its), difference))
    return table


def _by_seed(members: Sequence[Run], values: Mapping[str, Mapping[str, float]], metric: str) -> dict[int, float]:
    """Return the values of runs that have a seed."""
    return {
        seed: values[run.name][metric]
        for run in members
        if (seed := _origin(run).seed) is not None and metric in values[run.name]
    }


def _origin(run: Run) -> Origin:
    assert run.origin is not None
    return run.origin


def over_seeds(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float, float, float]]:
    """Return step, mean, lowest and highest value of curves, at the steps at which all of them are finite."""
    by_step = [{step: value for step, value in curve if math.isfinite(value)} for curve in curves]
    steps = [step for step in by_step[0] if all(step in each for each in by_step)] if by_step else []
    points = []
    for step in steps:
        its = [each[step] for each in by_step]
        points.append((step, math.fsum(its) / len(its), min(its), max(its)))
    return points
