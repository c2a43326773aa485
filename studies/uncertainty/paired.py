"""Differences between two arms of a study that were run from the same seeds."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from numc.studies.uncertainty.distributions import shift_seen, t_quantile
from numc.support.errors import NumcError

LEVEL = 0.95
"""The probability with which an interval covers the truth."""
POWER = 0.8
"""The probability with which a study sees the smallest effect that it could have seen."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and the ends of its interval; visible: the smallest effect that could have been seen.

    One value has no interval: its ends are infinite.
    """

    mean: float
    low: float
    high: float
    visible: float
    count: int

    @property
    def half(self) -> float:
        """Half of the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero: an effect is shown."""
        return not self.low <= 0 <= self.high


def of_mean(values: Sequence[float]) -> Interval:
    """Return the t-interval of the mean of values that are normally distributed, at LEVEL.

    visible: the true mean that a two-sided t-test at this level tells from zero with probability POWER, if values
    spread as these do. Raises NumcError if there are no values, or one is not finite.
    """
    count = len(values)
    if not count or not all(map(math.isfinite, values)):
        raise NumcError(f"an interval of {count} values: want at least one, all finite")
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, -math.inf, math.inf, math.inf, 1)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    t, shift = _factors(count - 1)
    return Interval(mean, mean - t * error, mean + t * error, shift * error, count)


def of_differences(values: Sequence[float], base: Sequence[float]) -> Interval:
    """Return the interval of the mean of paired differences: one of each seed, the seeds of `base` in their order.

    Raises NumcError if there are not as many of both.
    """
    if len(values) != len(base):
        raise NumcError(f"paired differences: got {len(values)} and {len(base)} values: want one of each seed in both")
    return of_mean([mine - other for mine, other in zip(values, base, strict=True)])


@functools.cache
def _factors(freedom: int) -> tuple[float, float]:
    t = t_quantile((1 + LEVEL) / 2, freedom)
    return t, shift_seen(t, freedom, POWER)
