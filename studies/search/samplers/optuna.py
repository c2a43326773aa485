"""Samplers of Optuna: the tree-structured Parzen estimator, and the genetic algorithm NSGA-II."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from numc.studies.search.extra import need
from numc.studies.search.samplers.interface import Ask, Outcome, Problem
from numc.studies.search.space import Candidate

TRIALS = 64
"""Candidates that are proposed in all by default."""
_FAILED = 1e9  # by how much a failed evaluation is worse, where Optuna wants a finite number


def tpe(problem: Problem) -> Ask:
    """Minimise the cost, with the tolerance as a constraint, by Optuna's TPESampler."""
    return _ask(problem, ["minimize"], lambda optuna, how: optuna.samplers.TPESampler(**how))


def nsga2(problem: Problem) -> Ask:
    """Minimise cost and loss together, with the tolerance as a constraint, by Optuna's NSGAIISampler."""
    size = max(problem.proposals, (problem.trials or TRIALS) // 4)
    return _ask(
        problem,
        ["minimize", "minimize"],
        lambda optuna, how: optuna.samplers.NSGAIISampler(population_size=size, **how),
    )


def _ask(problem: Problem, directions: list[str], make: Callable[[Any, dict[str, Any]], Any]) -> Ask:
    need("optuna")
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constraints are an experimental feature of Optuna
        sampler = make(optuna, {"seed": problem.seed, "constraints_func": lambda trial: trial.user_attrs["constraint"]})
        study = optuna.create_study(directions=directions, sampler=sampler)
    space = problem.space
    study.enqueue_trial(_parameters(problem, space.everywhere(space.widest)))
    left = TRIALS if problem.trials is None else problem.trials
    while left > 0:
        trials = [study.ask(_distributions(problem, optuna)) for _ in range(min(problem.proposals, left))]
        left -= len(trials)
        outcomes = yield [_candidate(problem, trial.params) for trial in trials]
        for trial, outcome in zip(trials, outcomes, strict=True):
            trial.set_user_attr("constraint", [min(outcome.worse, _FAILED) - problem.tolerance])
            study.tell(trial, _values(outcome)[: len(directions)])


def _values(outcome: Outcome) -> list[float]:
    return [outcome.cost, min(outcome.worse, _FAILED)]


def _names(problem: Problem) -> list[tuple[int, int, str]]:
    """Return the group, the axis and the name of each of Optuna's parameters."""
    axes = list(enumerate(problem.space.axes))
    return [(g, a, f"{g} {axis.name}") for g in range(len(problem.space.groups)) for a, axis in axes]


def _distributions(problem: Problem, optuna: Any) -> dict[str, Any]:
    top = problem.space.widest
    return {name: optuna.distributions.IntDistribution(0, top[axis]) for _, axis, name in _names(problem)}


def _parameters(problem: Problem, candidate: Candidate) -> dict[str, int]:
    return {name: candidate[group][axis] for group, axis, name in _names(problem)}


def _candidate(problem: Problem, parameters: dict[str, int]) -> Candidate:
    axes = range(len(problem.space.axes))
    names = {(group, axis): name for group, axis, name in _names(problem)}
    return tuple(tuple(parameters[names[g, a]] for a in axes) for g in range(len(problem.space.groups)))
