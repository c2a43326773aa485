"""The distributions that intervals need, in binary64: the incomplete beta function, Student's t, and its power."""

from __future__ import annotations

import math
from collections.abc import Callable

_TINY = 1e-300
_TERMS = 500
_HALVINGS = 200
_PARTS = 4000


def beta_below(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), the probability below x, for a, b > 0.

    By its continued fraction (Abramowitz and Stegun, 26.5.8), which converges fast below the mean.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_below(1 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / _away(1 + term * d), _away(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return math.exp(scale) * fraction / a


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = p."""
    return _root(lambda x: beta_below(x, a, b) - p, 0.0, 1.0)


def t_quantile(p: float, freedom: int) -> float:
    """Return the t that Student's distribution is below with probability p, at least one half."""
    x = beta_quantile(2 * (1 - p), freedom / 2, 0.5)
    return math.sqrt(freedom * (1 - x) / x)


def t_power(shift: float, t: float, freedom: int) -> float:
    """Return the probability that the magnitude of a noncentral t exceeds `t`.

    That is (Z + shift) / S > t for a normal Z and S² = chi² / freedom, integrated over S by Simpson's rule.
    """
    log_scale = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    end = 1 + 12 / math.sqrt(freedom)

    def density(s: float) -> float:
        if s == 0:
            return math.exp(log_scale) if freedom == 1 else 0.0
        return math.exp(log_scale + (freedom - 1) * math.log(s) - freedom * s * s / 2)

    total, step = 0.0, end / _PARTS
    for n in range(_PARTS + 1):
        s = n * step
        weight = 1 if n in (0, _PARTS) else 4 if n % 2 else 2
        total += weight * density(s) * (_normal_below(shift - t * s) + _normal_below(-shift - t * s))
    return total * step / 3


def shift_seen(t: float, freedom: int, power: float) -> float:
    """Return the shift of a noncentral t whose magnitude exceeds `t` with probability `power`."""
    return _root(lambda shift: t_power(shift, t, freedom) - power, 0.0, 100.0 * t, halvings=50)


def _normal_below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _away(x: float) -> float:
    """Return a number that can be divided by."""
    return x if abs(x) > _TINY else _TINY


def _root(f: Callable[[float], float], low: float, high: float, halvings: int = _HALVINGS) -> float:
    """Return where an increasing function is 0, by bisection."""
    for _ in range(halvings):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return (low + high) / 2
