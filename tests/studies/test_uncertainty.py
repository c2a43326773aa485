"""Intervals against scipy, and how often those of paired shares cover the truth."""

from __future__ import annotations

import itertools
import math

import pytest

from numc.studies.uncertainty.distributions import beta_below, beta_quantile, shift_seen, t_power, t_quantile
from numc.studies.uncertainty.paired import of_differences, of_mean
from numc.studies.uncertainty.proportions import clopper_pearson, mcnemar, paired_difference
from numc.support.errors import NumcError

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.5, 9), (1, 1), (3, 0.5), (12, 990), (400, 601), (4999, 2)])
def test_the_beta_distribution(a: float, b: float) -> None:
    for x in (1e-9, 0.001, 0.1, 0.3, 0.4, 0.5, 0.9, 0.999, 1 - 1e-9):
        assert beta_below(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), rel=1e-9, abs=1e-13)
    for p in (0.001, 0.025, 0.5, 0.975):
        assert beta_quantile(p, a, b) == pytest.approx(stats.beta.ppf(p, a, b), rel=1e-9, abs=1e-15)
    assert (beta_below(0, a, b), beta_below(1, a, b)) == (0, 1)


@pytest.mark.parametrize("freedom", [1, 2, 4, 9, 29, 200])
def test_students_distribution_and_its_power(freedom: int) -> None:
    t = t_quantile(0.975, freedom)
    assert t == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)
    for shift in (0.0, 1.0, 2.8, 6.0):
        want = stats.nct.sf(t, freedom, shift) + stats.nct.cdf(-t, freedom, shift)
        assert t_power(shift, t, freedom) == pytest.approx(want, abs=1e-6)
    assert t_power(shift_seen(t, freedom, 0.8), t, freedom) == pytest.approx(0.8, abs=1e-9)


def test_paired_differences() -> None:
    mine, base = [90.1, 91.4, 89.2, 90.0], [91.0, 92.0, 90.5, 90.2]
    found = of_differences(mine, base)
    test = stats.ttest_rel(mine, base)
    low, high = test.confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((-0.75, low, high))
    assert found.excludes_zero == (test.pvalue < 0.05)
    assert found.half == pytest.approx((high - low) / 2)
    assert found.visible > found.half, "what is seen four times in five is more than what is just significant"
    assert of_mean([0.5, 0.5]).half == 0
    alone = of_mean([3.0])
    assert (alone.low, alone.high, alone.excludes_zero) == (-math.inf, math.inf, False)


def test_shares() -> None:
    for hits, count in itertools.product((0, 1, 7, 50), (50, 500)):
        want = stats.binomtest(hits, count).proportion_ci(0.95, method="exact")
        assert clopper_pearson(hits, count) == pytest.approx((want.low, want.high), abs=1e-9)
    for gained, lost in ((0, 0), (1, 0), (9, 2), (3, 30)):
        want = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
        assert mcnemar(gained, lost) == pytest.approx(want)


@pytest.mark.parametrize(("first", "second"), [(0.02, 0.02), (0.05, 0.2), (0.3, 0.1)])
def test_intervals_of_paired_shares_cover_the_truth(first: float, second: float) -> None:
    """Over all outcomes of 40 samples: 95 % is meant, and at least 93 % kept."""
    count, covered = 40, 0.0
    for gained in range(count + 1):
        for lost in range(count + 1 - gained):
            low, high = paired_difference(gained, lost, count)
            if low <= first - second <= high:
                covered += stats.multinomial.pmf(
                    [gained, lost, count - gained - lost], count, [first, second, 1 - first - second]
                )
    assert 0.93 < covered <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: of_mean([]), "an interval of 0 values: want at least one, all finite"),
        (lambda: of_mean([1.0, math.nan]), "an interval of 2 values: want at least one, all finite"),
        (lambda: of_differences([1.0], [1.0, 2.0]), "paired differences: got 1 and 2 values: want one of each seed"),
        (lambda: clopper_pearson(4, 3), "an interval of 4 hits in 3 samples: want 0 to 3 hits of at least one"),
        (lambda: paired_difference(3, 3, 4), "a difference of 3 and 3 of 4 samples: want no more than there are"),
    ],
)
def test_bad_input_is_one_line(call, message: str) -> None:
    with pytest.raises(NumcError, match=message):
        call()
