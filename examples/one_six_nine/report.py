"""The paper's tables and figures 2 and 3 from the outcomes of the runs, beside what the paper prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import published
from arithmetics import BASE, SUMS, WITH_SUMS, named
from cells import difference, markdown, spread
from networks import Task
from scaled import KINDS, Outcome

from numc.numerics.grammar import parse_conversion

WORKS, FAILS = 0.98, 0.5
"""Of what fp32 learns: from WORKS on, a training works; below FAILS, it fails; between them, it is degraded."""


def exact(name: str) -> tuple[int, int, float | None]:
    """Return Emin, Emax and the least denormal number of a format of numc, as table I has them."""
    found = parse_conversion(name).format
    return found.emin, found.emax, float(found.min_subnormal) if found.subnormals else None


def progress(run: Outcome, base: Outcome) -> float:
    """Return the decrease of the loss, relative to that of the run in fp32; NaN after a loss that is not finite.

    It is from the first loss to the mean of the last tenth.
    """
    if not np.isfinite(run.losses).all():
        return math.nan
    first, last = base.losses[0], max(1, len(base.losses) // 10)
    return float((first - np.mean(run.losses[-last:])) / (first - np.mean(base.losses[-last:])))


def verdict(share: float) -> str:
    """Return the sign for trainings that learned this share, which is NaN after a loss that is not finite."""
    return "✓" if share >= WORKS else "D" if share >= FAILS else "✗"


def most(counts: Mapping[str, Mapping[str, float]]) -> tuple[float, str]:
    """Return the largest fraction of all tensors, and which one has it."""
    return max(((counts[layer][kind], f"{kind}, {layer}") for layer in counts for kind in KINDS), default=(0.0, ""))


@dataclass(frozen=True)
class Report:
    """The outcomes of the runs by network and arithmetic, one of each seed, for the operators that were asked for."""

    tasks: Sequence[Task]
    operators: Sequence[str]
    runs: Mapping[tuple[Task, str], Sequence[Outcome]]

    def learned(self, task: Task, name: str) -> list[float]:
        """Return what each seed learned, relative to fp32 with the same seed."""
        return [progress(run, base) for run, base in zip(self.runs[task, name], self.runs[task, BASE], strict=True)]

    def data(self) -> dict[str, Any]:
        """Return all numbers of the tables, in types that JSON has."""
        rows = []
        for (task, name), runs in self.runs.items():
            shares = self.learned(task, name)
            sign = verdict(float(np.mean(shares)))
            for seed, (run, share) in enumerate(zip(runs, shares, strict=True)):
                row = {"network": task.name, "arithmetic": name, "seed": seed, "verdict": sign}
                row |= {"learned": None if math.isnan(share) else share, "skipped": run.skipped}
                rows.append({**row, "denormals": run.denormals, "flushed": run.flushed})
        return {"formats": {name: exact(name) for name in published.FORMATS}, "runs": rows}

    def text(self) -> str:
        """Return the tables as Markdown."""
        parts = [_formats()]
        for number, operator in zip(("II", "III"), published.DENORMALS, strict=True):
            if operator in self.operators:
                parts.append(f"Table {number}, {operator}: published / largest fraction of denormals here")
                parts.append(self._denormals(operator))
                parts.append(f"{operator} with denormals: the training, and what it learned of what fp32 learned")
                parts.append(self._trained(operator, "d"))
                parts.append(f"Table IV, {operator} without denormals: published / the training here")
                parts.append(self._trained(operator, "n"))
        if all((task, name) in self.runs for task in self.tasks for name in WITH_SUMS):
            parts.append(self._with_sums())
        return "\n\n".join(parts)

    def _with_sums(self) -> str:
        """What an fp32 accumulator of sums of elements changes, seed by seed, in thousandths of what fp32 learns."""
        lines = [
            ["network", "arithmetic", "learned, sums rounded", "learned, sums in fp32", "difference, in thousandths"]
        ]
        for task in self.tasks:
            for name in WITH_SUMS:
                without, mine = (self.learned(task, which) for which in (name.removesuffix(SUMS), name))
                change = difference(*([1000 * share for share in shares] for shares in (mine, without)), ".2f")
                lines.append([task.title, name.removesuffix(SUMS), spread(without, ".4f"), spread(mine, ".4f"), change])
        return markdown(lines, 2)

    def _denormals(self, operator: str) -> str:
        lines = [["network", *published.COLUMNS, "where, in 1/5/10"]]
        for task in self.tasks:
            found = [[most(run.denormals) for run in self.runs[task, name]] for name in named(operator, "d")]
            cells = [
                f"{theirs:g} / {spread([fraction for fraction, _ in mine], '.2g')}"
                for theirs, mine in zip(published.DENORMALS[operator][task.name], found, strict=True)
            ]
            lines.append([task.title, *cells, "; ".join(sorted({where for _, where in found[0]}))])
        return markdown(lines)

    def _trained(self, operator: str, denormals: str) -> str:
        lines = [
            ["network", *(f"{name.split()[0]}{' + DLS' * ('DLS' in name)}" for name in named(operator, denormals))]
        ]
        for task in self.tasks:
            shares = [self.learned(task, name) for name in named(operator, denormals)]
            cells = [f"{verdict(float(np.mean(mine)))} {spread(mine, '.3f')}" for mine in shares]
            if denormals == "n":
                theirs = published.WITHOUT_DENORMALS[task.name]
                cells = [f"{one} / {cell}" for one, cell in zip(theirs, cells, strict=True)]
            lines.append([task.title, *cells])
        return markdown(lines)

    def plot(self, path: Path) -> None:
        """Draw figures 2 and 3 for the first operator: denormals in two layers of the CVAE, losses of the transformer.

        Both are of the first seed. Needs matplotlib. Networks that were not trained have no picture.
        """
        import matplotlib as mpl  # type: ignore[import-not-found, unused-ignore]

        mpl.use("Agg")
        from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

        tasks = {task.name: task for task in self.tasks}
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
        operator = self.operators[0]
        for scaled, name in enumerate(named(operator, "d")[:2]):
            if "vae" not in tasks:
                break
            curves = self.runs[tasks["vae"], name][0].curves
            for number, layer in enumerate(("conv4", "deconv2")):
                style = {"color": f"C{number}", "linestyle": "-:"[scaled]}
                left.plot(np.linspace(0, 1, len(curves[layer])), curves[layer], label=f"{layer}, {name}", **style)
        left.set(title="CVAE, as figure 2", xlabel="part of the training", ylabel="denormals among the gradients")
        for number, name in enumerate((BASE, *named(operator, "n"))):
            if "transformer" not in tasks:
                break
            losses = self.runs[tasks["transformer"], name][0].losses
            right.plot(losses, color=f"C{number}", linestyle="-:"["DLS" in name], label=name)
        right.set(title="transformer, as figure 3", xlabel="step", ylabel="training loss")
        for axes in (left, right):
            axes.grid(color="#e4e4e4")
            if axes.has_data():
                axes.legend(fontsize=7)
        figure.savefig(path, dpi=90)
        pyplot.close(figure)


def _formats() -> str:
    lines = [["format", "Emin", "Emax", "least denormal"]]
    for name, theirs in published.FORMATS.items():
        pairs = zip(theirs, exact(name), strict=True)
        lines.append(
            [name, *(f"{_power(number, one)} / {_power(number, two)}" for number, (one, two) in enumerate(pairs))]
        )
    return "Table I: published / numc\n\n" + markdown(lines)


def _power(column: int, number: float | None) -> str:
    if number is None:
        return "none"
    return f"2^{math.frexp(number)[1] - 1}" if column == 2 else f"{number:g}"
