"""Shares of right answers among few samples, and differences between two operators on the same samples."""

from __future__ import annotations

import math
from statistics import NormalDist

from numc.studies.uncertainty.distributions import beta_quantile
from numc.studies.uncertainty.paired import LEVEL
from numc.support.errors import NumcError

_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


def clopper_pearson(hits: int, count: int) -> tuple[float, float]:
    """Return an interval of a probability that has given `hits` hits in `count` samples.

    It covers the probability at least as often as it says (Clopper and Pearson, 1934). Raises NumcError unless
    0 <= hits <= count and count > 0.
    """
    if not 0 <= hits <= count or count < 1:
        raise NumcError(
            f"an interval of {hits} hits in {count} samples: want 0 to {max(count, 1)} hits of at least one"
        )
    tail = (1 - LEVEL) / 2
    low = beta_quantile(tail, hits, count - hits + 1) if hits else 0.0
    high = beta_quantile(1 - tail, hits + 1, count - hits) if hits < count else 1.0
    return low, high


def paired_difference(gained: int, lost: int, count: int) -> tuple[float, float]:
    """Return an interval of the difference of two probabilities of a hit, both observed on the same samples.

    gained, lost: samples that only the first hits, and only the second. Bonett and Price, 2012: Wald's interval after
    one sample has been added to each of both. Raises NumcError for counts that cannot be.
    """
    if min(gained, lost) < 0 or gained + lost > count or count < 1:
        raise NumcError(f"a difference of {gained} and {lost} of {count} samples: want no more than there are")
    first, second = (gained + 1) / (count + 2), (lost + 1) / (count + 2)
    half = _Z * math.sqrt((first + second - (first - second) ** 2) / (count + 2))
    return max(-1.0, first - second - half), min(1.0, first - second + half)


def mcnemar(gained: int, lost: int) -> float:
    """Return the probability of differences as uneven as these if both are as often right: McNemar's exact test."""
    count = gained + lost
    below = sum(math.comb(count, n) for n in range(min(gained, lost) + 1))
    return min(1.0, 2 * below / (1 << count))
