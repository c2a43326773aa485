"""Fine-grain against coarse-grain emulation: the error of an SGEMM (figure 4.3 of Osorio's thesis).

Fine-grain: every FMA is the operator, and the accumulator is rounded after each step, as in hardware:
``numc.matmul(a, b, fma="fma(a=F, acc=F)")``. Coarse-grain ("fake quantisation"): the inputs are rounded to F, the
product is an ordinary float32 one, and its result is rounded to F. The inputs are normally distributed, M = N, the
depth K varies; the error is sum((x - r)^2) / sum(r^2) against the float64 product r of the unrounded inputs.

With ``--coarse result``, as in the thesis (section 4.6.1): coarse-grain emulation rounds only the float32 result to
bf16, and errors are the distances of single elements from that float32 result. The thesis multiplies 20000 x 2000 by
2000 x 10000 and shows 20000 elements; here it is 48 x 2000 by 2000 x 48 and all elements. It does not say how its
inputs are distributed, so there are two distributions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
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


def errors_of_elements(distribution: str, size: int, depth: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the grain and the absolute and relative errors of the elements of a bf16 product of those sizes."""
    rng = np.random.default_rng(0)
    sample = {"normal": rng.standard_normal, "uniform [0, 1)": rng.random}[distribution]
    a, b = (sample(shape, dtype=np.float32) for shape in ((size, depth), (depth, size)))
    exact = numc.matmul(a, b, fma="fp32")
    for grain, found in (("fine", numc.matmul(a, b, fma="bf16_1_1")), ("coarse", numc.round(exact, "bf16"))):
        error = np.abs(found.astype(np.float64) - exact).reshape(-1)
        yield grain, error, error / np.abs(exact.reshape(-1))


def measure_result(quick: bool) -> figure.Rows:
    """Measure the medians of the errors of elements where coarse-grain emulation rounds only the result."""
    size, depth = (16, 200) if quick else (48, 2000)
    rows: list[dict[str, Any]] = []
    for distribution in ("normal", "uniform [0, 1)"):
        rows.append({"inputs": distribution, "M = N": size, "K": depth})
        medians = {
            grain: (float(np.median(absolute)), float(np.median(relative)))
            for grain, absolute, relative in errors_of_elements(distribution, size, depth)
        }
        for place, kind in enumerate(("absolute", "relative")):
            fine, coarse = medians["fine"][place], medians["coarse"][place]
            rows[-1] |= {f"fine, {kind}": fine, f"coarse, {kind}": coarse, f"fine / coarse, {kind}": fine / coarse}
    return rows


def draw_result(axes: Any, rows: figure.Rows) -> None:
    """Draw the absolute errors of all elements in ascending order: fine-grain as full lines, coarse-grain as dashed."""
    for number, row in enumerate(rows):
        for grain, error, _ in errors_of_elements(row["inputs"], row["M = N"], row["K"]):
            label = f"{row['inputs']}, {grain}"
            axes.plot(np.sort(error), "-" if grain == "fine" else "--", color=f"C{number}", label=label)
    axes.set_yscale("log")
    axes.set_xlabel("elements of the result, sorted by their error")
    axes.set_ylabel("absolute error")
    axes.legend()


STUDIES = {"operands": (measure, draw), "result": (measure_result, draw_result)}


def main() -> int:
    """Run the study that the command line names."""
    parser = figure.parser(__doc__ or "", "grain")
    what = "what coarse-grain emulation rounds: operands and result, or only the result"
    parser.add_argument("--coarse", choices=STUDIES, default="operands", help=what)
    args = parser.parse_args()
    return figure.run("grain", args, *STUDIES[args.coarse])


if __name__ == "__main__":
    sys.exit(main())
