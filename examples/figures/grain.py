"""Fine-grain against coarse-grain emulation: the error of an SGEMM (figure 4.3 of Osorio's thesis).

Fine-grain: every FMA is the operator, and the accumulator is rounded after each step, as in hardware:
``numc.matmul(a, b, fma="fma(a=F, acc=F)")``. Coarse-grain ("fake quantisation"): the inputs are rounded to F, the
product is an ordinary float32 one, and its result is rounded to F. The inputs are normally distributed, M = N, the
depth K varies; the error is sum((x - r)^2) / sum(r^2) against the float64 product r of the unrounded inputs.
"""

from __future__ import annotations

import sys
from typing import Any

import figure
import numpy as np

import numc

FORMATS = ("fp16", "e6m9", "bf16", "e5m4", "e5m2")


def relative(x: np.ndarray, r: np.ndarray) -> float:
    """The relative error of a result."""
    return float(((x - r) ** 2).sum() / (r**2).sum())


def measure(quick: bool) -> figure.Rows:
    """Measure the errors: rows by format and depth."""
    size, depths = (24, (16, 64, 256)) if quick else (192, (16, 64, 256, 1024, 4096))
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for depth in depths:
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((size, depth), (depth, size)))
        exact = a.astype(np.float64) @ b
        for name in FORMATS:
            fine = numc.matmul(a, b, fma=f"fma(a={name}, acc={name})")
            rounded = numc.matmul(numc.round(a, name), numc.round(b, name), fma="fp32")
            coarse = numc.round(rounded, name)
            errors = relative(fine, exact), relative(coarse, exact)
            rows.append({"format": name, "M = N": size, "K": depth, "fine": errors[0], "coarse": errors[1]})
            rows[-1]["fine / coarse"] = errors[0] / errors[1]
    rows.sort(key=lambda row: FORMATS.index(row["format"]))
    return rows


def draw(axes: Any, rows: figure.Rows) -> None:
    """Draw the errors over the depth: fine-grain as full lines, coarse-grain as dashed ones."""
    for number, name in enumerate(FORMATS):
        mine = [row for row in rows if row["format"] == name]
        depths = [row["K"] for row in mine]
        axes.plot(depths, [row["fine"] for row in mine], "o-", color=f"C{number}", label=name)
        axes.plot(depths, [row["coarse"] for row in mine], "s--", color=f"C{number}", markersize=3)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("depth K (line: every FMA rounded; dashed: only inputs and results rounded)")
    axes.set_ylabel("relative error")
    axes.set_ylim(top=300)
    axes.legend(ncols=5, loc="upper center")


if __name__ == "__main__":
    sys.exit(figure.main(__doc__ or "", "grain", measure, draw))
