"""Times of calls that take turns, so that a machine whose speed drifts, or is shared, slows them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Call = Callable[[], object]

PAUSE = 0.005  # seconds before a turn on more than one thread
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

    On one thread the time is CPU time of this process: what other processes take does not count. On more it is wall
    time, and a pause comes before each turn: thread pools spin for a while after their work, and would take the next
    turn's core.
    """
    clock, pause = (time.process_time, 0.0) if threads == 1 else (time.perf_counter, PAUSE)
    counts = {}
    for name, call in calls.items():
        call()  # the first call may compile, allocate, start threads
        counts[name] = max(1, round(SAMPLE / max(_once(call, 1, clock), 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    done = 0
    while done < rounds or time.perf_counter() < end:
        for name, call in calls.items():
            if pause:
                time.sleep(pause)
            if not samples[name] or min(samples[name]) < SHORT:
                call()
            samples[name].append(_once(call, counts[name], clock))
        done += 1
    return {name: summary(values) for name, values in samples.items()}


def ratio(timings: Mapping[str, Timing], over: str, under: str) -> float:
    """Return how many times longer `over` took than `under`: the ratio of the best times of one run."""
    return timings[over].best / timings[under].best


def _once(call: Call, count: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count
