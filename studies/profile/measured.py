"""The graph of what was profiled: what has to come before what from the programs, times from the profile.

How long a part takes on another number of threads follows from how busy the threads were: on P threads it took the time
t, in which they worked for W seconds together, so that ``(P t - W) / (P - 1)`` of its time is serial. What lies between
parts and outside of programs is serial, too, and comes before the parts of its program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.runtime.program import Program
from numc.studies.profile.keys import NO_PART, WHOLE_RUN, keys_of
from numc.studies.profile.rows import BETWEEN, OUTSIDE
from numc.studies.schedule.graph import Buffer, Graph, Operation
from numc.support.errors import NumcError

Spans = npt.NDArray[Any]
Run = tuple[Program, Spans]


def graph_of(steps: Sequence[Sequence[Run]], fastest: int, outside: float) -> Graph:
    """Return the graph of a step of which every part takes the time of the fastest step in which it ran.

    steps: the runs of each step, in order. fastest: the number of the step that the graph is of. outside: the seconds
    that it took outside of programs. Raises NumcError for runs on one thread, and for programs of an older version.
    """
    chosen = steps[fastest]
    programs = [program for program, _ in chosen]
    alike = [runs for runs in steps if [program for program, _ in runs] == programs]
    operations, buffers = [], []
    if outside > 0:
        operations.append(Operation(name="", serial=outside, parallel=0.0, after=(), kind=OUTSIDE))
    for number, program in enumerate(programs):
        if "buffers" not in program.manifest:
            raise NumcError("schedule: the program does not know what its parts use: compile it again with this numc")
        first = len(operations) + 1
        serial, parallel = _times([runs[number][1] for runs in alike], len(program.manifest["parts"]))
        operations.append(Operation(name="", serial=serial[-1], parallel=0.0, after=_last(operations), kind=BETWEEN))
        for part, (layer, role, kind, _) in enumerate(keys_of(program)):
            after = (first - 1, *(first + predecessor for predecessor in program.manifest["parts"][part]["after"]))
            operations.append(
                Operation(name=layer, serial=serial[part], parallel=parallel[part], after=after, role=role, kind=kind)
            )
        for buffer in program.manifest["buffers"]:
            users = tuple(first + part for part in buffer["parts"])
            buffers.append(Buffer(buffer["bytes"], users, buffer["result"]))
    return Graph(tuple(operations), tuple(buffers))


def _last(operations: Sequence[Operation]) -> tuple[int, ...]:
    """The operations that no other one waits for."""
    waited = {predecessor for operation in operations for predecessor in operation.after}
    return tuple(number for number in range(len(operations)) if number not in waited)


def _times(runs: Sequence[Spans], parts: int) -> tuple[list[float], list[float]]:
    """The serial and the parallel seconds of every part of a program, and last of what lies between them."""
    best = np.full(parts + 1, np.inf)
    serial = np.zeros(parts + 1)
    work = np.zeros(parts + 1)
    for spans in runs:
        threads = int(spans["thread"][spans["part"] == WHOLE_RUN][0])
        if threads < 2:
            raise NumcError("schedule: profiled on one thread, which does not show what fills several: give threads=2")
        inside = spans[spans["part"] >= NO_PART]
        bins = np.where(inside["part"] == NO_PART, parts, inside["part"])
        lengths = (inside["end"] - inside["begin"]) * 1e-9
        wall = np.bincount(bins, lengths * (inside["thread"] == 0), parts + 1)
        busy = np.bincount(bins, lengths - inside["waited"] * 1e-9, parts + 1)
        busy = np.clip(busy, wall, threads * wall)
        better = wall < best
        best = np.where(better, wall, best)
        work = np.where(better, busy, work)
        serial = np.where(better, (threads * wall - busy) / (threads - 1), serial)
    serial[parts] = best[parts]
    return serial.tolist(), np.maximum(work - serial, 0.0).tolist()
