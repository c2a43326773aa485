"""From the spans that the runtime recorded to the rows, steps and events of a profile."""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.runtime.library import Span
from numc.runtime.program import Program
from numc.studies.profile.keys import NO_PART, WHOLE_RUN, Key, keys_of
from numc.studies.profile.measured import graph_of
from numc.studies.profile.profile import Profile
from numc.studies.profile.roofline import Roofline, roofline
from numc.studies.profile.rows import BETWEEN, OUTSIDE, Event, ProfileRow, Step
from numc.support.errors import NumcError

Spans = npt.NDArray[Any]
SPAN = np.dtype(Span)
"""The dtype of a span: `numc_span` of numc.h."""


@dataclass
class Interval:
    """A step: when it began and ended, in nanoseconds of time.perf_counter_ns, and the runs in it."""

    begin: int
    end: int = 0
    runs: list[tuple[Program, Spans]] = field(default_factory=list)


def profile_of(steps: Sequence[Interval], peak: float | None, bandwidth: float | None, *, inside: bool) -> Profile:
    """Return the profile of steps. inside: the time of a step is that of its runs, not what lies around them."""
    counted = [_Counted.of(step, inside) for step in steps]
    ran = [n for n, step in enumerate(steps) if step.runs]
    if not ran:
        raise NumcError("no profile: no program of numc ran in the block")
    fastest = min(ran, key=lambda n: counted[n].seconds)
    threads = max(counts.threads for counts in counted)
    limits = roofline(threads, peak, bandwidth)
    best: dict[Key, int] = {}
    for n in ran:
        for key, counts in counted[n].sums.items():
            best[key] = min(best.get(key, counts.time), counts.time)
    rows = counted[fastest].rows(limits, best)
    told = tuple(Step(1e-9 * counts.begin, counts.seconds, counts.roles()) for counts in counted)
    events = tuple(event for n, counts in enumerate(counted) for event in counts.events(n))
    rows.sort(key=lambda row: -row.seconds)
    outside = sum(row.seconds for row in rows if row.kind == OUTSIDE)
    graph = functools.partial(graph_of, [step.runs for step in steps], fastest, outside)
    sources = (source for program, _ in steps[fastest].runs for source in program.manifest.get("sources", ()))
    models = tuple(dict.fromkeys(map(os.path.basename, sources)))
    return Profile(
        rows=tuple(rows),
        fastest=fastest,
        steps=told,
        roofline=limits,
        threads=threads,
        events=events,
        models=models,
        graph=graph,
    )


@dataclass
class _Sum:
    """The counts of a row. busy: nanoseconds by thread."""

    calls: int = 0
    time: int = 0
    fmas: int = 0
    bytes: int = 0
    busy: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))


class _Counted:
    """The sums over the parts of one step. begin, time: in nanoseconds."""

    def __init__(self) -> None:
        self.begin = self.time = self.threads = 0
        self.sums: defaultdict[Key, _Sum] = defaultdict(_Sum)
        self._spans: list[tuple[Key, int, int, int]] = []

    @classmethod
    def of(cls, step: Interval, inside: bool) -> _Counted:
        """Count the spans of a step."""
        counted = cls()
        within = 0
        for program, spans in step.runs:
            within += counted._add(program, spans)
        counted.begin, counted.time = step.begin, step.end - step.begin
        if inside and step.runs:
            counted.begin, counted.time = int(step.runs[0][1]["begin"][0]), within
        if not inside and step.runs and counted.time > within:
            outside = counted.sums["", "", OUTSIDE, ""]
            outside.calls, outside.time = 1, counted.time - within
        return counted

    @property
    def seconds(self) -> float:
        """The time of the step."""
        return 1e-9 * self.time

    def _add(self, program: Program, spans: Spans) -> int:
        """Count the spans of a run, and return its time."""
        keys, table = keys_of(program), program.manifest["parts"]
        time = 0
        for begin, end, waited, fmas, bytes_, part, thread in spans.tolist():
            if part == WHOLE_RUN:
                time += end - begin
                self.threads = max(self.threads, thread)
                continue
            key = keys[part] if part != NO_PART else ("", "", BETWEEN, "")
            total = self.sums[key]
            self._spans.append((key, thread, begin, end))
            total.busy[thread] += end - begin - waited
            if thread == 0:
                known = table[part]["bytes"] if part != NO_PART else 0
                total.calls += 1
                total.time += end - begin
                total.fmas += fmas
                total.bytes += bytes_ if known is None else known
        return time

    def rows(self, limits: Roofline, best: Mapping[Key, int]) -> list[ProfileRow]:
        """Return the rows of the table, in no order. best: the least time of each in any step."""
        rows = []
        for key, total in self.sums.items():
            least = limits.least_seconds(total.fmas, total.bytes)
            busy = sum(total.busy.values())
            counts = total.time > 0 and key[2] not in (BETWEEN, OUTSIDE)
            rows.append(
                ProfileRow(
                    *key,
                    total.calls,
                    1e-9 * total.time,
                    1e-9 * best[key],
                    total.time / self.time if self.time else 0.0,
                    total.fmas,
                    total.bytes,
                    least / (1e-9 * total.time) if counts and least else None,
                    max(total.busy.values()) * self.threads / busy if counts and busy and self.threads > 1 else None,
                )
            )
        return rows

    def roles(self) -> dict[str, float]:
        """Return the seconds by role, the most first; those without a role are under their kind."""
        seconds: dict[str, float] = {}
        for (_, role, kind, _), total in self.sums.items():
            name = role or kind
            seconds[name] = seconds.get(name, 0.0) + 1e-9 * total.time
        return dict(sorted(seconds.items(), key=lambda each: -each[1]))

    def events(self, step: int) -> list[Event]:
        """Return what threads did, in order."""
        spans = sorted(self._spans, key=lambda one: (one[2], one[1]))
        return [Event(*key, thread, step, 1e-9 * begin, 1e-9 * (end - begin)) for key, thread, begin, end in spans]
