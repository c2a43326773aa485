"""numc.search: the cheapest arithmetic of a model that keeps a metric within a tolerance of fp32."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from numc.compiler.lower import signature
from numc.compiler.options import Options
from numc.compiler.policy_table import policy_table
from numc.frontends.load import title_of
from numc.numerics.policy.layer import Layer
from numc.studies.compare import judged_model, named_output
from numc.studies.cost import decisions_of, report
from numc.studies.data import Data
from numc.studies.metrics import check_metrics, check_share
from numc.studies.report.live_page import LivePage
from numc.studies.search.cluster import Cluster
from numc.studies.search.driver import Driver, Evaluate, Trial, decided
from numc.studies.search.evaluation import FP32, SPLITS, Evaluator, Message, identity, message
from numc.studies.search.found import EVALUATED, Row, Search, metric_of
from numc.studies.search.groups import groups, shares
from numc.studies.search.journal import Journal
from numc.studies.search.objectives import cost_of
from numc.studies.search.options import (
    Function,
    SearchOptions,
    checked_errors,
    checked_folder,
    checked_function,
    checked_sampler,
    checked_space,
    checked_tolerance,
)
from numc.studies.search.samplers.interface import Problem
from numc.studies.search.space import ordered
from numc.studies.search.splits import splits
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError
from numc.support.keywords import keywords

_EVERY = 2.0
"""The page is made again when so many seconds have passed since the last time."""


class Interrupted(KeyboardInterrupt):
    """The search was interrupted by Ctrl-C. folder: has what is finished, None if it is lost."""

    def __init__(self, trials: int, folder: Path | None) -> None:
        super().__init__(f"{trials} evaluated")
        self.trials, self.folder = trials, folder


@dataclass(frozen=True)
class _Subject:
    """The subject of a search: a model or training step, its layers, and what an evaluation needs besides a policy."""

    name: str
    layers: tuple[Layer, ...]
    metric: str
    data: Mapping[str, Data]
    message: Message


@in_default_environment
@keywords(SearchOptions)
def search(model: Any, given: SearchOptions) -> Search:
    """Find the cheapest arithmetic of a model whose metric is worse than that of fp32 by at most `tolerance`.

    model: as for numc.compare.
    Raises NumcError if the model, the data or an option is not valid, and Interrupted for Ctrl-C.
    """
    tolerance = checked_tolerance(given.tolerance)
    space = checked_space(given.space, given.operators, given.settings)
    machine = given.checked_machine()
    sampler_name, sampler = checked_sampler(given.sampler, space)
    threads = given.checked_threads()
    function_name, function = checked_function(given.evaluate, given.data, given.metric, remote=given.remote)
    folder = checked_folder(given.folder, given.resume)
    if function is None:
        subject = _of_data(model, given, threads)
    else:
        subject = _of_function(model, given, function_name, threads)
    check_share(tolerance, subject.metric)
    whole = replace(space, groups=groups(subject.layers, given.by, given.only))
    sent = {**subject.message, "open": "" if function is not None else whole.open()}

    def price(policy: str) -> float:
        return cost_of(given.objective, report(decided(subject.layers, policy), machine))

    if given.operators:
        whole = ordered(whole, {choice: price(whole.policy(whole.everywhere(choice))) for choice in whole.choices()})
    fp32_cost: float | None
    try:
        fp32_cost = price(FP32)
    except NumcError:  # fp32 has no passes, and some machines have no units for it
        fp32_cost = None
    problem = Problem(
        space=whole,
        price=cache(lambda candidate: price(whole.policy(candidate))),
        tolerance=tolerance,
        seed=given.seed,
        trials=given.trials,
        proposals=given.proposals,
        errors=checked_errors(given.order, sampler_name, whole.groups),
    )
    header = {"model": subject.name, "metric": subject.metric, "numc": identity()}
    journal = Journal(folder, subject.message["digest"], header, resume=given.resume)
    settings = {
        "objective": given.objective, "machine": None if machine is None else machine.name,
        "metric": subject.metric, "tolerance": tolerance, "sampler": sampler_name, "seed": given.seed,
        "trials": given.trials, "proposals": given.proposals, "order": given.order and dict(given.order),
        "by": given.by, "space": {axis.name: list(axis.values) for axis in whole.axes}, "settings": whole.settings,
        "numc": identity(), "digest": subject.message["digest"],
    }  # fmt: skip

    def outcome(rows: tuple[Row, ...]) -> Search:
        best = driver.best(problem)
        return Search(
            model=subject.name,
            settings=settings,
            space=whole,
            samples={split: data.samples for split, data in subject.data.items()},
            rows=rows,
            policy="" if best is None else whole.policy(best.candidate),
            best=best,
            trials=tuple(driver.trials.values()),
            shares=shares(subject.layers, whole.groups, given.by),
            commands=tuple(given.commands),
        )

    page = LivePage(None if folder is None else folder / "report.html", _EVERY)

    def so_far(stopped: bool) -> str:
        from numc.studies.search.folder import live  # needs jinja2

        return live(outcome(_rows_so_far(driver, problem, fp32_cost)), stopped)

    def told(count: int, best: Trial | None) -> None:
        page.follow(so_far)
        if given.progress is not None:
            given.progress(count, best, fp32_cost)

    with page, _where(sent, function, given.workers, given.scheduler) as evaluate:
        driver = Driver(subject.layers, evaluate, journal, metric_of(subject.metric).best, told)
        try:
            driver.run(problem, sampler)
            result = outcome(_rows(driver, problem, fp32_cost))
        except KeyboardInterrupt:
            raise Interrupted(len(driver.trials), folder) from None
        if folder is not None:
            from numc.studies.search.folder import write

            page.end()
            write(result, folder)
    return result


def _of_data(model: Any, given: SearchOptions, threads: int | None) -> _Subject:
    """Return a model that is run on data. Raises NumcError if they do not fit."""
    name, imported = judged_model(model, given, given.fixed(), "search")
    inputs, outputs = signature(imported)
    output = named_output(given.output, outputs)
    symbols = {argument.name: argument.symbols for argument in imported.inputs}
    data = splits(*given.samples, inputs, output, symbols, given.batch)
    (metric,) = check_metrics([] if given.metric is None else [given.metric], data[SPLITS[0]].labels, output)
    layers = tuple(decision.layer for decision in policy_table(imported, Options()).decisions)
    sent = message(imported, data, metric=metric, output=output.name, threads=threads)
    return _Subject(name, layers, metric, data, sent)


def _of_function(model: Any, given: SearchOptions, name: str, threads: int | None) -> _Subject:
    """Return a model, or a training step of a module, that a function of the user's evaluates."""
    decisions = decisions_of(model, given.example_inputs, Options(), training=given.training, shapes=given.fixed())
    sent = message(None, {}, metric=EVALUATED.name, output="", threads=threads, function=name)
    return _Subject(title_of(model), tuple(decision.layer for decision in decisions), EVALUATED.name, {}, sent)


@contextlib.contextmanager
def _where(given: Message, function: Function | None, workers: int, scheduler: str | None) -> Iterator[Evaluate]:
    """Give what evaluates: this process, or workers."""
    if workers or scheduler is not None:
        with Cluster(given, workers=workers, address=scheduler) as cluster:
            yield cluster.evaluate
        return
    evaluator = Evaluator(given, function)
    yield lambda policies, split: ((number, evaluator(policy, split)) for number, policy in enumerate(policies))


def _rows(driver: Driver, problem: Problem, fp32_cost: float | None) -> tuple[Row, ...]:
    """Return fp32, the best choice for all groups together, and the best of all, on both splits."""
    named_policies: dict[str, tuple[str, float | None]] = {"fp32": (FP32, fp32_cost)}
    for name, trial in (("uniform", driver.best(problem, uniform=True)), ("search", driver.best(problem))):
        if trial is not None:
            named_policies[name] = problem.space.policy(trial.candidate), trial.cost
    return tuple(
        Row(name, cost, *(driver.value(policy, split) for split in SPLITS))
        for name, (policy, cost) in named_policies.items()
    )


def _rows_so_far(driver: Driver, problem: Problem, fp32_cost: float | None) -> tuple[Row, ...]:
    """Return the rows of a search that is not finished, without values on the samples that take no part in it."""
    best = {"uniform": driver.best(problem, uniform=True), "search": driver.best(problem)}
    rows = [Row(name, trial.cost, trial.value, math.nan) for name, trial in best.items() if trial is not None]
    return (Row("fp32", fp32_cost, driver.value(FP32, SPLITS[0]), math.nan), *rows)
