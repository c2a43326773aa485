"""Times of calls that take turns, so that other load on the machine or a drift of its speed affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Call = Callable[[], object]
T = TypeVar("T")

# The threads of a pool keep spinning for a while after their work, and would take processor time from the next call.
# With more than one thread, a turn is therefore PAUSE seconds of rest, then WARM_UP seconds of untimed calls, then
# samples.
PAUSE, WARM_UP, TURN = 0.1, 0.05, 0.15
SAMPLE = 2e-4  # seconds: a sample repeats shorter calls, so that the resolution of the clock does not matter
SHORT = 0.02  # seconds: shorter calls run once untimed before a sample, because other calls have filled the caches


@dataclass(frozen=True)
class Timing:
    """The seconds that one call takes: the best and the median over all rounds."""

    best: float
    median: float
    rounds: int


def summary(samples: Sequence[float]) -> Timing:
    """Return the timing, given at least one sample."""
    return Timing(min(samples), statistics.median(samples), len(samples))


def in_turns(calls: Mapping[str, Call], *, seconds: float, rounds: int = 3, threads: int = 1) -> dict[str, Timing]:
    """Time each of `calls` once in every round, for `seconds` seconds and at least `rounds` rounds.

    On one thread the time is CPU time of this process: what other processes take does not count, and turns are single
    samples. On more it is wall time.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    counts = {}
    for name, call in calls.items():
        call()  # the first call may compile, allocate memory or start threads
        counts[name] = max(1, round(SAMPLE / max(_once(call, 1, clock), 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    done = 0
    while done < rounds or time.perf_counter() < end:
        for name, call in calls.items():
            if threads > 1:
                time.sleep(PAUSE)
                _for(WARM_UP, call)
                samples[name] += _for(TURN, lambda name=name, call=call: _once(call, counts[name], clock))
                continue
            if not samples[name] or min(samples[name]) < SHORT:
                call()
            samples[name].append(_once(call, counts[name], clock))
        done += 1
    return {name: summary(values) for name, values in samples.items()}


def _for(seconds: float, call: Callable[[], T]) -> list[T]:
    """Repeat the call for that many seconds, at least once, and return the results."""
    outputs = []
    end = time.perf_counter() + seconds
    while not outputs or time.perf_counter() < end:
        outputs.append(call())
    return outputs


def ratio(timings: Mapping[str, Timing], over: str, under: str) -> float:
    """Return how many times longer `over` took than `under`: the ratio of the best times of one run."""
    return timings[over].best / timings[under].best


def _once(call: Call, count: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count
