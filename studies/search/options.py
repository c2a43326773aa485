"""Checks of the options of a search."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numc.studies.report.write import check_installed
from numc.studies.search.evaluation import named
from numc.studies.search.journal import NAME
from numc.studies.search.samplers.greedy import greedy
from numc.studies.search.samplers.interface import Sampler
from numc.studies.search.samplers.optuna import nsga2, tpe
from numc.studies.search.samplers.procedure import procedure
from numc.studies.search.samplers.uniform import SIGNIFICAND
from numc.studies.search.space import WIDTHS, Space, operator_space, width_space
from numc.support.arguments import check_function, checked, checked_texts
from numc.support.errors import NumcError, did_you_mean, quoted, shown
from numc.support.files import checked_path

SAMPLERS: Mapping[str, Sampler] = MappingProxyType(
    {"procedure": procedure, "greedy": greedy, "tpe": tpe, "nsga2": nsga2}
)


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
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NumcError(f"{path}: cannot be made: {error.strerror or error}: name another folder") from None
    return path


def checked_function(
    evaluate: Any, data: Any, metric: str | None, *, remote: bool
) -> tuple[str, Callable[[str, str], float] | None]:
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
