"""numc.search: the cheapest arithmetic of a model that keeps a metric within a tolerance of fp32."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numc.compiler.lower import signature
from numc.compiler.options import Options
from numc.compiler.policy_table import policy_table
from numc.frontends.load import title_of
from numc.numerics.policy.layer import Layer
from numc.studies.compare import named_model, named_output
from numc.studies.cost import decisions_of, report
from numc.studies.data import BATCH, Data, check_batch
from numc.studies.hardware.machine import load_machine
from numc.studies.metrics import check_metrics, check_names
from numc.studies.search.cluster import Cluster, threads_of
from numc.studies.search.driver import Driver, Evaluate, Trial, decided
from numc.studies.search.evaluation import FP32, SPLITS, Evaluator, Message, identity, message
from numc.studies.search.found import EVALUATED, Row, Search, metric_of
from numc.studies.search.groups import groups, shares
from numc.studies.search.journal import Journal
from numc.studies.search.objectives import check_objective, cost_of
from numc.studies.search.options import (
    checked_folder,
    checked_function,
    checked_sampler,
    checked_space,
    checked_tolerance,
)
from numc.studies.search.samplers.interface import PROPOSALS, Problem
from numc.studies.search.space import ordered
from numc.studies.search.splits import splits
from numc.support.arguments import (
    Fixed,
    check_function,
    checked,
    checked_fixed,
    checked_integer,
    checked_texts,
)
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError

if TYPE_CHECKING:
    import numpy.typing as npt

Function = Callable[[str, str], float]
#: Called with the number of evaluated candidates, the best one or None, and the cost of fp32, None if it has none.
Progress = Callable[[int, "Trial | None", "float | None"], None]


class Interrupted(KeyboardInterrupt):
    """The search was interrupted by Ctrl-C. folder: has what is finished, None if it is lost."""

    def __init__(self, trials: int, folder: Path | None) -> None:
        super().__init__(f"{trials} evaluated")
        self.trials, self.folder = trials, folder


@dataclass(frozen=True)
class _Subject:
    """What is searched: a model or a training step, its layers, and what an evaluation needs besides a policy."""

    name: str
    layers: tuple[Layer, ...]
    metric: str
    data: Mapping[str, Data]
    message: Message


@in_default_environment
def search(
    model: Any,
    data: Any = None,
    *,
    tolerance: float,
    labels: Any = None,
    report_data: Any = None,
    report_labels: Any = None,
    space: str | None = None,
    operators: Sequence[str] = (),
    settings: str | None = None,
    by: str = "layer",
    only: Sequence[str] = (),
    objective: str = "bytes",
    machine: str | os.PathLike[str] | None = None,
    metric: str | None = None,
    output: str | None = None,
    evaluate: str | Function | None = None,
    training: bool = False,
    sampler: str | None = None,
    trials: int | None = None,
    proposals: int = PROPOSALS,
    seed: int = 0,
    batch: int = BATCH,
    threads: int | None = None,
    workers: int = 0,
    scheduler: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    example_inputs: Any = None,
    shapes: Fixed | None = None,
    values: Mapping[str, npt.ArrayLike] | None = None,
    dynamic_shapes: Any = None,
    commands: Sequence[str] = (),
    progress: Progress | None = None,
) -> Search:
    """Find the cheapest arithmetic of a model whose metric is worse than that of fp32 by at most `tolerance`.

    model, data, labels, output, batch, threads, example_inputs, shapes, values, dynamic_shapes: as for numc.compare.
    report_data, report_labels: samples that are only reported; by default every other one of `data`.
    space: widths, by default ``e=2..8 m=1..23``; or operators: texts of FMA operators. settings: those of a policy, in
    which ``{e}`` stands for a value. by: layer, kind, role or model: what shares a choice. only: names or patterns of
    what is searched; the rest stays in fp32.
    objective: bytes, area or passes; latency or energy on a machine. metric: as for numc.compare. evaluate: instead of
    data and metric, a function of the text of a policy and of "search" or "report" that returns a number, larger is
    better; or its name, ``module:function``. training: the function trains: the contractions of a file's backward pass
    are searched, too. Those of a module's always are, and it needs `example_inputs`.
    sampler: procedure, greedy, tpe or nsga2; by default procedure if the space has m, else greedy. trials: no further
    candidates are proposed after so many. proposals: how many tpe and nsga2 propose at once, and so the most workers
    that have something to do. seed: of tpe and nsga2.
    workers: processes of this machine that evaluate; scheduler: the address of a scheduler of Dask instead.
    folder: keeps every evaluation at once, and gets the policy and a page; resume: go on with the search in it.
    Raises NumcError if the model, the data or an option is not valid, and Interrupted for Ctrl-C.
    """
    limit = checked_tolerance(tolerance)
    space_of_one = checked_space(space, operators, settings)
    known_machine = load_machine(machine) if machine is not None else None
    check_objective(objective, known_machine)
    name_of_sampler, chosen_sampler = checked_sampler(sampler, space_of_one)
    checked_texts(only, "only"), checked_texts(commands, "commands")
    check_function(progress, "progress")
    seed = checked_integer(seed, "seed", 0, 2**32 - 1)
    trials = None if trials is None else checked_integer(trials, "trials", 1, 10**9)
    proposals = checked_integer(proposals, "proposals", 1, 10**6)
    threads = None if threads is None else checked_integer(threads, "threads", 1, 1024)
    if checked_integer(workers, "workers", 0, 1024) and scheduler is not None:
        raise NumcError("search: workers are processes of this machine, a scheduler has its own: leave one of them out")
    if workers and threads is None:
        threads = threads_of(workers)
    if checked(training, "training", bool, "True or False") and evaluate is None:
        raise NumcError("training: is about a function that evaluates by training: give one, or leave training out")
    remote = bool(workers) or scheduler is not None
    function_name, function = checked_function(evaluate, data, metric, remote=remote)
    place = checked_folder(folder, resume)
    fixed = checked_fixed(shapes, values)
    if function is None:
        check_batch(batch)
        check_names([] if metric is None else [metric])
        given = (data, labels), None if report_data is None else (report_data, report_labels)
        imported = (example_inputs, fixed, dynamic_shapes)
        subject = _of_data(model, imported, given, metric, output, batch, threads)
    else:
        subject = _of_function(model, example_inputs, fixed, training, function_name, threads)
    whole = replace(space_of_one, groups=groups(subject.layers, by, only))
    sent = {**subject.message, "open": "" if function is not None else whole.open()}

    def price(policy: str) -> float:
        return cost_of(objective, report(decided(subject.layers, policy), known_machine))

    if operators:
        whole = ordered(whole, {one: price(whole.policy(whole.everywhere(one))) for one in whole.choices()})
    fp32_cost: float | None
    try:
        fp32_cost = price(FP32)
    except NumcError:  # fp32 has no passes, and some machines have no units for it
        fp32_cost = None
    problem = Problem(
        space=whole,
        price=cache(lambda candidate: price(whole.policy(candidate))),
        tolerance=limit,
        seed=seed,
        trials=trials,
        proposals=proposals,
    )
    about = {"model": subject.name, "metric": subject.metric, "numc": identity()}
    journal = Journal(place, subject.message["digest"], about, resume=resume)
    told = None if progress is None else lambda count, best: progress(count, best, fp32_cost)
    with _where(sent, function, workers, scheduler) as asked:
        driver = Driver(subject.layers, asked, journal, metric_of(subject.metric).best, told)
        try:
            driver.run(problem, chosen_sampler)
            rows = _rows(driver, problem, fp32_cost)
        except KeyboardInterrupt:
            raise Interrupted(len(driver.trials), place) from None
    best = driver.best(problem)
    how = {
        "objective": objective, "machine": None if known_machine is None else known_machine.name,
        "metric": subject.metric, "tolerance": limit, "sampler": name_of_sampler, "seed": seed, "trials": trials,
        "proposals": proposals,
        "by": by, "space": {axis.name: list(axis.values) for axis in whole.axes}, "settings": whole.settings,
        "numc": identity(), "digest": subject.message["digest"],
    }  # fmt: skip
    result = Search(
        model=subject.name,
        settings=how,
        space=whole,
        samples={split: one.samples for split, one in subject.data.items()},
        rows=rows,
        policy="" if best is None else whole.policy(best.candidate),
        best=best,
        trials=tuple(driver.trials.values()),
        shares=shares(subject.layers, whole.groups, by),
        commands=tuple(commands),
    )
    if place is not None:
        from numc.studies.search.folder import write  # needs jinja2

        write(result, place)
    return result


def _of_data(
    model: Any,
    imported_with: tuple[Any, Any, Any],
    given: tuple[tuple[Any, Any], tuple[Any, Any] | None],
    metric: str | None,
    output: str | None,
    batch: int,
    threads: int | None,
) -> _Subject:
    """Return a model that is run on data. Raises NumcError if they do not fit."""
    name, imported = named_model(model, *imported_with, purpose="search")
    inputs, outputs = signature(imported)
    chosen = named_output(output, outputs)
    symbols = {argument.name: argument.symbols for argument in imported.inputs}
    data = splits(*given, inputs, chosen, symbols, batch)
    (chosen_metric,) = check_metrics([] if metric is None else [metric], data[SPLITS[0]].labels, chosen)
    layers = tuple(decision.layer for decision in policy_table(imported, Options()).decisions)
    sent = message(imported, data, metric=chosen_metric, output=chosen.name, threads=threads)
    return _Subject(name, layers, chosen_metric, data, sent)


def _of_function(
    model: Any, example_inputs: Any, fixed: Fixed, training: bool, name: str, threads: int | None
) -> _Subject:
    """Return a model, or a training step of a module, that a function of the user's evaluates."""
    decisions = decisions_of(model, example_inputs, Options(), training=training, shapes=fixed)
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
