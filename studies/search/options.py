"""The keywords of numc.search, and their checks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numc.numerics.policy.policy import module_of
from numc.studies.data import ABOUT_DATA, Judged, check_batch
from numc.studies.hardware.machine import Machine, load_machine
from numc.studies.metrics import check_names
from numc.studies.report.write import check_installed
from numc.studies.search.cluster import threads_of
from numc.studies.search.driver import Trial
from numc.studies.search.evaluation import named
from numc.studies.search.groups import BY, Group
from numc.studies.search.journal import NAME, check_new
from numc.studies.search.objectives import check_objective
from numc.studies.search.samplers.greedy import greedy
from numc.studies.search.samplers.interface import PROPOSALS, Sampler
from numc.studies.search.samplers.optuna import nsga2, tpe
from numc.studies.search.samplers.procedure import procedure
from numc.studies.search.samplers.uniform import SIGNIFICAND
from numc.studies.search.space import WIDTHS, Space, operator_space, width_space
from numc.support.arguments import check_function, checked, checked_integer, checked_texts
from numc.support.errors import NumcError, did_you_mean, quoted, shortened, shown
from numc.support.files import checked_path
from numc.support.keywords import about

SAMPLERS: Mapping[str, Sampler] = MappingProxyType(
    {"procedure": procedure, "greedy": greedy, "tpe": tpe, "nsga2": nsga2}
)


#: By group, what is known of how much it minds a narrow arithmetic; None if nothing is.
Errors = tuple[float, ...] | None
Function = Callable[[str, str], float]
#: Called with the number of evaluated candidates, the best one or None, and the cost of fp32, None if it has none.
Progress = Callable[[int, "Trial | None", "float | None"], None]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The choices of a search, and the parts of a model that have one."""

    space: str | None = field(default=None, metadata=about(f"widths, by default ``{WIDTHS}``"))
    operators: Sequence[str] = field(default=(), metadata=about("texts of FMA operators, instead of a space of widths"))
    settings: str | None = field(
        default=None,
        metadata=about("those of a policy, in which ``{e}`` stands for a value, by default fma = fmacs(e{e}m{m})"),
    )
    by: str = field(default="layer", metadata=about(f"what shares a choice: {', '.join(BY)}"))
    only: Sequence[str] = field(
        default=(), metadata=about("names or patterns of what is searched; the rest stays in fp32")
    )


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The measures of cheap and of good enough."""

    tolerance: float = field(metadata=about("by how much the metric may be worse than that of fp32"))
    objective: str = field(default="bytes", metadata=about("bytes, area or passes; or latency or energy on a machine"))
    machine: str | os.PathLike[str] | None = field(
        default=None, metadata=about("a name of `numc list machines` or a file")
    )
    metric: str | None = field(default=None, metadata=about("one of those of numc.compare"))
    evaluate: str | Function | None = field(
        default=None,
        metadata=about(
            'instead of data and metric, a function of the text of a policy and of "search" or "report" that returns a '
            "number, larger is better; or its name, ``module:function``"
        ),
    )
    training: bool = field(
        default=False,
        metadata=about(
            "the function trains: the contractions of a file's backward pass are searched, too. Those of a module's "
            "always are, and it needs `example_inputs`"
        ),
    )
    report_data: Any = field(
        default=None, metadata=about("samples that are only reported, by default every other one of `data`")
    )
    report_labels: Any = field(default=None, metadata=about("their labels"))


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """The sampler, which proposes candidates."""

    sampler: str | None = field(
        default=None,
        metadata=about("procedure, greedy, tpe or nsga2; by default procedure if the space has m, else greedy"),
    )
    trials: int | None = field(
        default=None, metadata=about("no further candidates are proposed after so many; for tpe and nsga2 64")
    )
    proposals: int = field(
        default=PROPOSALS,
        metadata=about("how many tpe and nsga2 propose at once, and so the most workers that have something to do"),
    )
    seed: int = field(default=0, metadata=about("of tpe and nsga2"))
    order: Mapping[str, float] | None = field(
        default=None,
        metadata=about(
            "for greedy: errors by the names of what is searched, such as those of numc.training_sensitivity, which "
            "order the moves, so that none is tried alone"
        ),
    )


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Sampling, Choices, Goal, Judged):
    """The keywords of numc.search. Raises NumcError for numbers and functions that are none."""

    data: Any = field(default=None, kw_only=False, metadata=ABOUT_DATA)
    workers: int = field(default=0, metadata=about("processes of this machine that evaluate"))
    scheduler: str | None = field(
        default=None, metadata=about("the address of a scheduler of Dask, instead of processes of this machine")
    )
    folder: str | os.PathLike[str] | None = field(
        default=None, metadata=about("keeps every evaluation at once, and gets the policy and a page")
    )
    resume: bool = field(default=False, metadata=about("go on with the search in the folder"))
    progress: Progress | None = field(
        default=None,
        metadata=about("called with the number of evaluated candidates, the best one or None, and the cost of fp32"),
    )

    def __post_init__(self) -> None:
        checked_texts(self.only, "only"), checked_texts(self.commands, "commands")
        check_function(self.progress, "progress")
        bounds = {"seed": (0, 2**32 - 1), "trials": (1, 10**9), "proposals": (1, 10**6), "workers": (0, 1024)}
        for name, (low, high) in bounds.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_integer(value, name, low, high))
        if self.workers and self.scheduler is not None:
            raise NumcError(
                "search: workers are processes of this machine, a scheduler has its own: leave one of them out"
            )
        if checked(self.training, "training", bool, "True or False") and self.evaluate is None:
            raise NumcError("training: is about a function that evaluates by training: give one, or leave training out")
        if self.evaluate is None:
            check_batch(self.batch)
            check_names([] if self.metric is None else [self.metric])

    @property
    def remote(self) -> bool:
        """Whether workers evaluate."""
        return bool(self.workers) or self.scheduler is not None

    def checked_threads(self) -> int | None:
        """Return the threads of a program, which workers of this machine share. Raises NumcError."""
        threads = super().checked_threads()
        return threads_of(self.workers) if self.workers and threads is None else threads

    def checked_machine(self) -> Machine | None:
        """Return the machine. Raises NumcError for one that does not go with the objective."""
        machine = load_machine(self.machine) if self.machine is not None else None
        check_objective(self.objective, machine)
        return machine

    @property
    def samples(self) -> tuple[tuple[Any, Any], tuple[Any, Any] | None]:
        """Data and labels of the search, and those that are only reported."""
        report = None if self.report_data is None else (self.report_data, self.report_labels)
        return (self.data, self.labels), report


def checked_tolerance(tolerance: object) -> float:
    """Return a tolerance. Raises NumcError unless it is a number of at least 0: fp32 is not better than itself."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not math.isfinite(tolerance):
        raise NumcError(f"tolerance: got {shown(tolerance)}, want a number of at least 0")
    if tolerance < 0:
        raise NumcError(f"tolerance: got {shown(tolerance)}, which fp32 itself misses: want a number of at least 0")
    return float(tolerance)


def checked_space(space: str | None, operators: Sequence[str], settings: str | None) -> Space:
    """Return what is searched, without groups. Raises NumcError if it is not a space."""
    if space is not None and operators:
        raise NumcError("search: the space is one of widths or of operators: leave one of them out")
    if operators:
        return operator_space(checked_texts(operators, "operators"), settings)
    return width_space(WIDTHS if space is None else space, settings)


def checked_sampler(name: str | None, space: Space) -> tuple[str, Sampler]:
    """Return the name of a sampler, by default the one that fits the space, and the sampler. Raises NumcError."""
    if name is None:
        name = "procedure" if any(axis.name == SIGNIFICAND for axis in space.axes) else "greedy"
    if name not in SAMPLERS:
        near = did_you_mean(str(name), SAMPLERS)
        raise NumcError(f"sampler {quoted(name)}: unknown{near}: want {', '.join(SAMPLERS)}")
    return name, SAMPLERS[name]


def checked_errors(order: Mapping[str, float] | None, sampler: str, among: Sequence[Group]) -> Errors:
    """Return the errors of groups by their names, None without any. Raises NumcError unless each group has one.

    A contraction has the error of its module, if that is the one that is named.
    """
    if order is None:
        return None
    checked(order, "order", Mapping, "errors by the names of what is searched")
    if sampler != "greedy":
        raise NumcError(f"order: is for the sampler greedy, but the sampler is {sampler}: leave one of them out")
    errors = [order.get(group.name, order.get(module_of(group.name))) for group in among]
    for group, error in zip(among, errors, strict=True):
        if isinstance(error, bool) or not isinstance(error, Real) or math.isnan(error):
            names = ", ".join(map(shortened, list(order)[:12])) or "nothing"
            raise NumcError(f"order: {quoted(group.name)}: want a number as its error, got errors of {names}")
    return tuple(map(float, errors))  # type: ignore[arg-type]


def checked_folder(folder: str | os.PathLike[str] | None, resume: bool) -> Path | None:
    """Return the folder of a search, which is made if there is none. Raises NumcError if it cannot be used."""
    if folder is None:
        if checked(resume, "resume", bool, "True or False"):
            raise NumcError("resume: goes on with the search in a folder: name it")
        return None
    check_installed("jinja2")
    path = checked_path(folder)
    if resume and not (path / NAME).is_file():
        raise NumcError(f"{path}: there is no {NAME} to go on with: name the folder of a search")
    if not resume:
        check_new(path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise NumcError(f"{path}: cannot be made: {error.strerror or error}: name another folder") from None
    return path


def checked_function(evaluate: Any, data: Any, metric: str | None, *, remote: bool) -> tuple[str, Function | None]:
    """Return the name and the function of the user's that evaluates; the name is "" if there is none.

    remote: whether workers call it, which import it by its name. Raises NumcError for what is no such function.
    """
    if evaluate is None:
        if data is None:
            raise NumcError("search: needs data, or a function that evaluates a policy")
        return "", None
    if data is not None or metric is not None:
        raise NumcError("search: a function that evaluates has its own data and metric: leave data and metric out")
    if isinstance(evaluate, str):
        return evaluate, named(evaluate)
    check_function(evaluate, "evaluate")
    name = f"{getattr(evaluate, '__module__', '')}:{getattr(evaluate, '__qualname__', type(evaluate).__qualname__)}"
    if remote and (name.startswith("__main__:") or not name.rpartition(":")[2].isidentifier()):
        raise NumcError(f"evaluate: workers cannot import {quoted(name)}: move the function into a module")
    return name, evaluate
