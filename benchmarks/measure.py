"""Times of calls that take turns, so that a machine whose speed drifts, or is shared, slows them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Call = Callable[[], object]

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


def in_turns(calls: Mapping[str, Call], *, seconds: float, rounds: int = 3, pause: float = 0.0) -> dict[str, Timing]:
    """Time each of `calls` once a round, for `seconds` and at least `rounds` rounds.

    pause: seconds of sleep before each turn. Thread pools spin for a while after their work; at two threads on two
    cores they would take the next turn's core.
    """
    counts = {}
    for name, call in calls.items():
        call()  # the first call may compile, allocate, start threads
        counts[name] = max(1, round(SAMPLE / max(_once(call, 1), 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    done = 0
    while done < rounds or time.perf_counter() < end:
        for name, call in calls.items():
            if pause:
                time.sleep(pause)
            if not samples[name] or min(samples[name]) < SHORT:
                call()
            samples[name].append(_once(call, counts[name]))
        done += 1
    return {name: summary(values) for name, values in samples.items()}


def _once(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def ratio(timings: Mapping[str, Timing], over: str, under: str) -> float:
    """Return how many times longer `over` took than `under`: the ratio of the best times of one run."""
    return timings[over].best / timings[under].best
