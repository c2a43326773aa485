"""The representation error of bf16, bf16x2 and bf16x3, over every float32 significand (figure 7.2 of Osorio's thesis).

The numbers x are all 2^23 float32 numbers in [1, 2), and the error is abs(F(x) - x) / x. It is the same in every binade
as long as no part leaves the range of float32. The shares of errors below some bounds are those that the thesis gives
in per cent; they come out for this relative error, not for the absolute one.
"""

from __future__ import annotations

import sys
from typing import Any

import figure
import numpy as np

import numc

FORMATS = ("bf16", "bf16x2", "bf16x3")
BINS = 256  # of the lines of the largest errors


def errors(name: str, step: int) -> np.ndarray:
    """The relative error of every `step`-th significand, in float64, where the differences are exact."""
    x = (np.arange(0, 1 << 23, step, dtype=np.uint32) + np.uint32(0x3F800000)).view(np.float32)
    return np.abs(numc.round(x, name).astype(np.float64) - x) / x


def measure(quick: bool) -> figure.Rows:
    """Measure the errors: rows by format."""
    rows: list[dict[str, Any]] = []
    for name in FORMATS:
        error = errors(name, 61 if quick else 1)
        rows.append(
            {
                "format": name,
                "significands": error.size,
                "exact": f"{np.mean(error == 0):.4%}",
                "below 1e-4": f"{np.mean(error < 1e-4):.4%}",
                "1e-6 to 1e-5": f"{np.mean((error >= 1e-6) & (error < 1e-5)):.4%}",
                "below 1e-6": f"{np.mean(error < 1e-6):.4%}",
                "largest": float(error.max()),
                "log2": float(np.log2(error.max())) if error.any() else "-",
                "mean": float(error.mean()),
                "root mean square": float(np.sqrt(np.mean(error**2))),
            }
        )
    return rows


def draw(axes: Any, rows: figure.Rows) -> None:
    """Draw the errors over [1, 2): dots for some significands, lines for the largest errors, zeros at the bottom."""
    step, floor = 7, 2.0**-27
    places = 1 + np.arange(0, 1 << 23, step) * 2.0**-23
    for number, name in enumerate(FORMATS):
        error = np.maximum(errors(name, step), floor)
        axes.plot(places[::331], error[::331], ",", color=f"C{number}", alpha=0.6)
        largest = [part.max() for part in np.array_split(error, BINS)]
        axes.plot(1 + (np.arange(BINS) + 0.5) / BINS, largest, color=f"C{number}", label=name)
    axes.axhline(2.0**-24, color="#8a8a8a", linestyle=":", label="$2^{-24}$: float32 rounds by up to this")
    axes.set_yscale("log", base=2)
    axes.set_ylim(floor / 2, 2.0**-4)
    axes.set_xlabel("x")
    axes.set_ylabel("relative error (at the bottom: 0)")
    axes.legend(ncols=2, loc="upper center")


if __name__ == "__main__":
    sys.exit(figure.main(__doc__ or "", "representation", measure, draw))
