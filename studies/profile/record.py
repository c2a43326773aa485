"""Recording a profile: every run of a program while a block lasts, and the steps that they belong to."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numc.runtime.context import CONTEXT
from numc.runtime.library import library
from numc.runtime.program import Program
from numc.studies.profile.count import SPAN, Interval, Spans, profile_of
from numc.studies.profile.profile import Profile
from numc.studies.profile.roofline import check_given
from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError


class _Recorder:
    """A numc_profile of the runtime: the spans of the runs that used it."""

    def __init__(self) -> None:
        self.handle = library().numc_profile_new()
        if not self.handle:
            raise NumcError("profile: out of memory")

    def take(self) -> Spans:
        """Return the spans, and free the profile."""
        count = ctypes.c_size_t()
        address = library().numc_profile_spans(self.handle, ctypes.byref(count))
        spans = np.zeros(count.value, SPAN)
        if count.value:
            ctypes.memmove(spans.ctypes.data, address, spans.nbytes)
        library().numc_profile_free(self.handle)
        return spans


@in_default_environment
class Profiled:
    """The profile of a block of `numc.profile`, complete when the block has ended."""

    def __init__(self, peak: float | None, bandwidth: float | None) -> None:
        self._given = peak, bandwidth
        self._done: list[Interval] = []
        self._open = Interval(time.perf_counter_ns())
        self._profile: Profile | None = None

    @contextlib.contextmanager
    def around(self, program: Program) -> Iterator[int | None]:
        """Record one run of a program; gives the address of the runtime's profile.

        Programs without a table of parts are those that compute constants for the compiler.
        """
        if "parts" not in program.manifest:
            yield None
            return
        recorder, interval = _Recorder(), self._open
        try:
            yield recorder.handle
        finally:
            spans = recorder.take()
            if spans.size:
                interval.runs.append((program, spans))

    def step(self) -> None:
        """Say that a step of the training ends here, and the next one begins."""
        now = time.perf_counter_ns()
        self._open.end = now
        self._done.append(self._open)
        self._open = Interval(now)
        self._profile = None

    def close(self) -> None:
        """End the last step, if anything of numc ran in it."""
        if self._open.runs or not self._done:
            self.step()

    @property
    def profile(self) -> Profile:
        """The profile of the steps that have ended. Raises NumcError if no program ran in any of them."""
        if self._profile is None:
            self._profile = profile_of(self._done, *self._given, inside=False)
        return self._profile


@contextlib.contextmanager
def profile(*, peak: float | None = None, bandwidth: float | None = None) -> Iterator[Profiled]:
    """Profile everything that numc runs while a ``with`` block lasts, in any thread: calls of programs, and training.

        with numc.profile() as profiled:
            for x, y in batches:
                train_step(x, y)
                profiled.step()
        print(profiled.profile.table())

    The block's value has a method ``step``, which ends a step of the training, and an attribute ``profile``: a Profile
    of its fastest step. Without a call of ``step`` the block is one step. No bit of a result changes, and nothing is
    compiled anew. peak, bandwidth: what the machine can reach in GFLOP/s and GB/s; they are measured otherwise.
    Raises NumcError for a peak or a bandwidth that is not positive.
    """
    check_given(peak, bandwidth)
    profiled = Profiled(peak, bandwidth)
    try:
        with CONTEXT.watches.around(profiled.around):
            yield profiled
    finally:
        profiled.close()


@in_default_environment
def profile_program(
    program: Program,
    args: Sequence[Any],
    named: Mapping[str, Any],
    *,
    repeat: int,
    threads: int | None,
    seed: int | None,
    widths: Any,
    peak: float | None,
    bandwidth: float | None,
) -> Profile:
    """Run a program `repeat` times after a run that is not counted. See Program.profile."""
    checked_integer(repeat, "repeat", 1, 1_000_000)
    if "parts" not in program.manifest:
        raise NumcError("profile: the program has no table of its parts: compile it again with this version of numc")
    check_given(peak, bandwidth)
    program(*args, threads=threads, seed=seed, widths=widths, **named)
    profiled = Profiled(peak, bandwidth)

    def around(running: Program) -> contextlib.AbstractContextManager[int | None]:
        return profiled.around(running) if running is program else contextlib.nullcontext()

    with CONTEXT.watches.around(around):
        for _ in range(repeat):
            program(*args, threads=threads, seed=seed, widths=widths, **named)
            profiled.step()
    return profile_of(profiled._done, peak, bandwidth, inside=True)
