"""Times of calls that take turns, so that a machine whose speed drifts, or is shared, slows them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Call = Callable[[], object]
T = TypeVar("T")

# Thread pools spin for a while after their work, and would take the core of the next turn's: on more than one thread,
# turns are seconds of PAUSE, of WARM_UP, and of samples.
PAUSE, WARM_UP, TURN = 0.1, 0.05, 0.15
SAMPLE = 2e-4  # seconds: shorter calls are repeated within a sample, so that the clock's resolution does not matter
SHORT = 0.02  # seconds: before a sample, shorter calls run once untimed, because the others emptied the caches


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the best and the median of the rounds."""

    best: float
    median: float
    rounds: int


def summary(samples: Sequence[float]) -> Timing:
    """Return the timing of at least one sample."""
    return Timing(min(samples), statistics.median(samples), len(samples))


def in_turns(calls: Mapping[str, Call], *, seconds: float, rounds: int = 3, threads: int = 1) -> dict[str, Timing]:
    """Time each of `calls` once a round, for `seconds` and at least `rounds` rounds.

    On one thread the time is CPU time of this process: what other processes take does not count, and turns are single
    samples. On more it is wall time.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    counts = {}
    for name, call in calls.items():
        call()  # the first call may compile, allocate, start threads
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
    """Call for that long, at least once; returns the results."""
    found = []
    end = time.perf_counter() + seconds
    while not found or time.perf_counter() < end:
        found.append(call())
    return found


def ratio(timings: Mapping[str, Timing], over: str, under: str) -> float:
    """Return how many times longer `over` took than `under`: the ratio of the best times of one run."""
    return timings[over].best / timings[under].best


def _once(call: Call, count: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count
