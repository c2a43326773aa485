"""The results as a table of text, as JSON and as one HTML page, which refers to no other file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accuracy import NETWORKS, Accuracy, Network
from silicon import Bench
from variants import FP32, VARIANTS, Unit

from numc.hardware.synthesis import Synthesized
from numc.studies.metrics import METRICS
from numc.studies.report.charts import Axis, Chart, Point, Series, decades, linear
from numc.studies.report.colours import colour
from numc.studies.report.drawing import drawn, environment
from numc.studies.report.write import check_installed

HERE = Path(__file__).parent
PARTS = ("products", "adder", "accumulator", "conversion")


@dataclass(frozen=True)
class Results:
    """What was found. accuracies: by network and unit. kept: why the areas are those of the table, "" for Yosys."""

    units: tuple[Unit, ...]
    accuracies: Mapping[str, Mapping[str, Accuracy]]
    benches: Mapping[str, Bench]
    areas: Mapping[str, Synthesized]
    kept: str

    def gates(self, unit: Unit) -> float:
        """The gates for one product of a unit whose operands are stored in its format: without their conversion."""
        row = self.areas[unit.name]
        return (row.total - row.conversion) / row.taken

    def part(self, unit: Unit, part: str) -> float:
        """The gates of a part for one product."""
        row = self.areas[unit.name]
        return float(getattr(row, part)) / row.taken

    def front(self, network: Network) -> list[Unit]:
        """The units of 8-bit operands that are better than every smaller one, the smallest first."""
        eight = [unit for unit in self.units if unit.name in self.benches or unit.name == "H100 e4m3"]
        best = -math.inf
        better = []
        for unit in sorted(eight, key=lambda unit: (self.gates(unit), -self._worth(network, unit))):
            if self._worth(network, unit) > best:
                best = self._worth(network, unit)
                better.append(unit)
        return better

    def _worth(self, network: Network, unit: Unit) -> float:
        metric = self.accuracies[network.name][unit.name].metric
        return metric if network.high else -metric

    def as_json(self) -> dict[str, Any]:
        """Return everything in types that JSON has."""
        return {
            "units": [
                {
                    **asdict(unit),
                    "gates": self.gates(unit),
                    "area": asdict(self.areas[unit.name]),
                    "bench": asdict(self.benches[unit.name]) if unit.name in self.benches else None,
                    **{name: asdict(rows[unit.name]) for name, rows in self.accuracies.items()},
                }
                for unit in self.units
            ],
            "fronts": {network.name: [unit.name for unit in self.front(network)] for network in NETWORKS},
            "kept areas": self.kept,
        }


def text(found: Results) -> str:
    """Return the table of all units, with tabs between its columns."""
    lines = [["unit", "gates", *(n.metric for n in NETWORKS), *(f"error, {n.name}" for n in NETWORKS), "bench"]]
    for unit in found.units:
        rows = [found.accuracies[network.name][unit.name] for network in NETWORKS]
        cells = [METRICS[n.metric].text(row.metric) for n, row in zip(NETWORKS, rows, strict=True)]
        cells += [f"{row.error:.1e}" for row in rows]
        lines.append([unit.name, f"{found.gates(unit):.0f}", *cells, bench_text(found.benches.get(unit.name))])
    return "\n".join("\t".join(line) for line in lines)


def bench_text(bench: Bench | None) -> str:
    """Return what the bench says of a unit."""
    if bench is None:
        return "-"
    compared = f"{bench.steps} steps, {bench.dots} dot products"
    return bench.reason or (f"{bench.wrong} differ of {compared}" if bench.wrong else f"{compared} equal")


def render(found: Results, specification: Path) -> str:
    """Return the page. Raises NumcError where jinja2 is missing."""
    check_installed("jinja2")
    base = found.accuracies
    rows = [
        {
            "unit": unit,
            "look": _look(found, unit),
            "gates": found.gates(unit),
            "parts": [found.part(unit, part) for part in PARTS],
            "ns": found.areas[unit.name].picoseconds / 1000,
            "cells": [
                (METRICS[n.metric].text(base[n.name][unit.name].metric), base[n.name][unit.name].error)
                for n in NETWORKS
            ],
            "bench": bench_text(found.benches.get(unit.name)),
        }
        for unit in found.units
    ]
    return (
        environment(HERE)
        .get_template("page.html.jinja")
        .render(
            found=found,
            rows=rows,
            networks=NETWORKS,
            parts=PARTS,
            widest=max(sum(row["parts"]) for row in rows if row["unit"] != FP32),
            beyond=[f"{unit.name} ({found.gates(unit):,.0f})" for unit in found.units if unit not in _near(found)],
            charts=[drawn(chart, labels="points") for chart in charts(found)],
            findings=[_finding(found, network) for network in NETWORKS],
            wrong=sum(bench.wrong for bench in found.benches.values()),
            steps=sum(bench.steps for bench in found.benches.values()),
            dots=sum(bench.dots for bench in found.benches.values()),
            reason=next((bench.reason for bench in found.benches.values() if bench.reason), ""),
            specification=specification.read_text(encoding="utf-8"),
            shades=[dict(zip(("light", "dark"), colour(f"c{n}"), strict=True)) for n in range(len(PARTS))],
        )
    )


def charts(found: Results) -> list[Chart]:
    """Return the charts of each network over gates: its metric, with the front, and the error beside fp32."""
    made = []
    units = _near(found)
    for network in NETWORKS:
        metric, rows = METRICS[network.metric], found.accuracies[network.name]
        scale = 100.0 if metric.percent else 1.0
        values = [scale * rows[unit.name].metric for unit in units]
        y = linear(f"{metric.name} (%)" if metric.percent else metric.name, values, "high" if network.high else "low")
        front = [(found.gates(unit), scale * rows[unit.name].metric) for unit in found.front(network)]
        made.append(_chart(found, network, units, values=values, y=y, front=front))
        errors = [rows[unit.name].error for unit in units]
        y = decades("relative error beside fp32", errors, "low")
        made.append(_chart(found, network, units, values=errors, y=y, front=[]))
    return made


def _near(found: Results) -> list[Unit]:
    """The units that are drawn: those that are not much larger than the largest variant, beside which none is seen."""
    largest = max(found.gates(unit) for unit in found.units if unit.name in found.benches)
    return [unit for unit in found.units if found.gates(unit) < 1.5 * largest]


def _chart(
    found: Results, network: Network, units: Sequence[Unit], *, values: Sequence[float], y: Axis, front: Sequence[Point]
) -> Chart:
    series = []
    for unit, value in zip(units, values, strict=True):
        shade, shape = _look(found, unit)
        told = f"{unit.name}: {value:.4g}, {found.gates(unit):.0f} gates; {unit.about}"
        point = (found.gates(unit), value)
        series.append(Series(label=unit.name, points=(point,), colour=shade, shape=shape, line=False, told=(told,)))
    return Chart(
        name=network.name,
        title=f"{network.title}: {y.label}",
        x=linear("gates of a product, without conversion", [found.gates(unit) for unit in units], "low"),
        y=y,
        series=tuple(series),
        guide=tuple(_steps(front)),
    )


def _steps(front: Sequence[Point]) -> list[Point]:
    """The front as a staircase, which keeps its value up to the next area."""
    return [end for n, point in enumerate(front) for end in (*([(point[0], front[n - 1][1])] if n else []), point)]


def _look(found: Results, unit: Unit) -> tuple[str, int]:
    """The colour and the marker of a unit: one of both for what was specified, its variants, and what exists."""
    if unit == VARIANTS[0]:
        return "c1", 4
    return ("c0", 1) if unit.name in found.benches else ("ink", 2)


def _finding(found: Results, network: Network) -> dict[str, str]:
    metric, rows = METRICS[network.metric], found.accuracies[network.name]
    names = ", ".join(unit.name for unit in found.front(network))
    return {
        "about": network.title,
        "answer": f"{metric.name} {metric.text(rows[VARIANTS[0].name].metric)}",
        "text": f"fp32 {metric.text(rows[FP32.name].metric)}, H100's unit for the same operands "
        f"{metric.text(rows['H100 e4m3'].metric)}. On the front of 8-bit units: {names}.",
    }
