"""Binary64 references for binary32 functions, and the distance to them in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNARY: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}


def ulp_errors(got: NDArray[np.float32], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """|got - expected| in ulps of binary32 at `expected`; infinite for a wrong NaN, infinity or sign of zero.

    An infinity counts as 2^128, which is where rounding to nearest gives it.
    """
    with np.errstate(all="ignore"):
        limited = np.clip(expected, -(2.0**128), 2.0**128)
        measured = np.clip(got.astype(np.float64), -(2.0**128), 2.0**128)
        exponent = np.floor(np.log2(np.clip(np.abs(limited), 2.0**-126, 2.0**127)))
        errors = np.abs(measured - limited) * np.exp2(23 - exponent)
        wrong = np.isnan(got) != np.isnan(expected)
        # Both must agree on the sign, zeros included.
        wrong |= ~np.isnan(expected) & (np.signbit(got) != np.signbit(expected))
        wrong |= np.isinf(got) & (np.abs(expected) < 2.0**128 * (1 - 2.0**-25))
        return np.where(wrong, np.inf, np.where(np.isnan(expected), 0.0, errors))


def largest_error(x: NDArray[Any], got: NDArray[np.float32], expected: NDArray[np.float64]) -> float:
    """The largest of `ulp_errors`; prints where it is, as that is the first thing one asks."""
    errors = ulp_errors(got, expected)
    worst = int(np.argmax(errors))
    print(f"{errors[worst]:.6f} ulp at x = {float(x[worst]).hex()}: {got[worst]!r}, expected {expected[worst]!r}")
    return float(errors[worst])
