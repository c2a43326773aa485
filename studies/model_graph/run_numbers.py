"""Errors of the layers of a graph against fp32, and their times, from a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from numc.compiler.options import Options
from numc.compiler.programs.compile import contents
from numc.frontends.imported import Imported
from numc.runtime.library import default_threads
from numc.runtime.program import Program
from numc.studies.diff import Diff, diff
from numc.studies.model_graph.nodes import Node, Run
from numc.studies.profile.profile import Profile
from numc.support.processor import processor_name

_REPEAT = 5
_CHAIN = " to "
"""Between the names of the first and the last layer of a part that computes several (profile/keys.py)."""


def measured(
    nodes: Sequence[Node],
    imported: Imported,
    options: Options,
    inputs: Mapping[str, npt.NDArray[Any]],
    *,
    threads: int | None,
    random: bool,
) -> tuple[tuple[Node, ...], Run]:
    """Return the nodes with their errors and times in a run on these inputs, and what the run was.

    Raises NumcError for inputs that do not fit.
    """
    program, fp32 = (Program(contents(imported, each)[0]) for each in (options, Options()))
    differences = diff(fp32, program, inputs, threads=threads)
    profile: Profile = program.profile(inputs, repeat=_REPEAT, threads=threads, peak=1.0, bandwidth=1.0)
    outputs = [each.difference.relative for each in differences.outputs if each.difference is not None]
    first = next(iter(inputs.values()), None)
    run = Run(
        samples=int(first.shape[0]) if first is not None and first.ndim else 1,
        random=random,
        threads=threads or default_threads(),
        machine=processor_name(),
        error=max(outputs, default=0.0),
        seconds=profile.seconds,
    )
    return with_times(with_errors(nodes, differences), profile), run


def with_errors(nodes: Sequence[Node], differences: Diff) -> tuple[Node, ...]:
    """Return the nodes with the errors of their contractions, of several the largest."""
    errors = {position: each.difference.relative for each in differences.layers for position in each.positions}
    return tuple(
        replace(node, error=max(its, key=lambda error: (error != error, error)) if its else None)
        for node in nodes
        for its in [[errors[row["position"]] for row in node.rows if row["position"] in errors]]
    )


def with_times(nodes: Sequence[Node], profile: Profile) -> tuple[Node, ...]:
    """Return the nodes with the times of their parts; a part that computes several layers is the first one's."""
    names = {node.name for node in nodes}
    times: dict[str, float] = {}
    for row in profile.rows:
        name = row.layer if row.layer in names else row.layer.partition(_CHAIN)[0]
        times[name] = times.get(name, 0.0) + row.seconds
    return tuple(replace(node, seconds=times.pop(node.name, None)) for node in nodes)
