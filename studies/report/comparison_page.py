"""The HTML page of a comparison: the values that fill in its template."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numc.hardware.areas import NAME as TABLE_NAME
from numc.numerics.notes import notes_in
from numc.studies.metrics import METRICS
from numc.studies.report import comparison_charts as charts
from numc.studies.report.charts import Chart
from numc.studies.report.drawing import drawn, environment, number, ridge
from numc.studies.report.picture_command import picture_command
from numc.studies.results import AGREES, BREAKS, ComparisonData, Result

KEEPS = 0.005
"""An arithmetic whose first metric is worse than that of fp32 by at most this much keeps it."""


def render(comparison: ComparisonData, live: str = "", *, stopped: bool = False) -> str:
    """Return the page as text. It refers to no other file.

    live: how far an unfinished comparison is, whose page loads itself again unless the comparison was stopped.
    """
    return (
        environment()
        .get_template("comparison.html.jinja")
        .render(
            c=comparison,
            live=live,
            stopped=stopped,
            name=Path(comparison.model).name,
            metrics=[METRICS[name] for name in comparison.metrics],
            findings=findings(comparison),
            look={result.name: _look(comparison, result) for result in comparison.results},
            scatter=[drawn(chart, labels="points") for chart in _scatters(comparison)],
            layers=None if (by_layer := charts.layer_errors(comparison)) is None else drawn(by_layer, labels="ends"),
            layer_names=charts.layer_names(comparison),
            layer_rows=_layer_rows(comparison),
            picture=picture_command(comparison),
            swamping=[drawn(chart, labels="") for chart in charts.swamping(comparison)],
            exponents=[ridge(chart) for chart in charts.exponents(comparison)],
            notes=_notes(comparison),
            meanings=notes_in(dict.fromkeys(row["fma"] for r in comparison.results for row in r.table if row["fma"])),
            apart=[(r.name, ", ".join(r.apart)) for r in comparison.results if r.apart],
            tables=_tables(comparison),
            agrees=AGREES,
            breaks=BREAKS,
        )
    )


@dataclass(frozen=True)
class Finding:
    """One of the main results: its subject, its value, and a sentence."""

    about: str
    answer: str
    text: str
    look: tuple[str, int] | None = None
    bad: bool = False


def keeps(comparison: ComparisonData, result: Result) -> bool:
    """Whether the first metric of an arithmetic is at most KEEPS worse than that of fp32.

    Of a share of samples, the whole interval of the difference has to be: few samples cannot tell.
    """
    metric = METRICS[comparison.metrics[0]]
    mine, fp32 = result.metrics[metric.name], comparison.results[0].metrics[metric.name]
    if metric.name in result.shares:
        return result.shares[metric.name].difference_interval[0] >= -KEEPS
    if metric.name == "mse" and comparison.labels != "values":
        return result.error <= KEEPS
    worse = fp32 - mine if metric.best == "max" else mine - fp32
    return worse <= KEEPS * (1.0 if metric.percent or metric.name == "cosine" else abs(fp32))


def findings(comparison: ComparisonData) -> list[Finding]:
    """Return the main results, which the page shows first."""
    name, others = comparison.metrics[0], comparison.results[1:]
    metric = METRICS[name]
    how = "0.5 points" if metric.percent else "0.005" if name == "cosine" else "0.5%"
    entries = []
    good = [r for r in others if keeps(comparison, r)]
    if good:
        by_gates = charts.has_gates(comparison)
        best = min(good, key=lambda r: (r.gates if by_gates and r.gates is not None else r.area, r.error))
        told = f", 95% interval of the difference {best.shares[name].difference_text}" if name in best.shares else ""
        text = (
            f"{name} {metric.text(best.metrics[name])}: within {how} of fp32{told}, with {_cheaper(comparison, best)}."
        )
        entries.append(Finding(f"Cheapest that keeps {name}", best.name, text, _look(comparison, best)))
    elif others:
        entries.append(_none_keeps(comparison, how))
    finite = [r for r in others if math.isfinite(r.error)]
    if finite:
        best = min(finite, key=lambda r: r.error)
        text = f"Relative error {number(best.error, 2)} of the outputs, with {_cheaper(comparison, best)}."
        entries.append(Finding("Closest to fp32", best.name, text, _look(comparison, best)))
    broken = [(r, r.breaks) for r in others if r.breaks is not None]
    if broken:
        result, layer = min(broken, key=lambda pair: (pair[1].position, -pair[1].error))
        rest = f", {len(broken) - 1} more later" if len(broken) > 1 else ""
        text = f"{result.name} has a relative error of {number(layer.error, 2)} there{rest}."
        entries.append(Finding("Breaks first", layer.name or f"contraction {layer.position}", text,
                             _look(comparison, result)))  # fmt: skip
    elif others:
        entries.append(Finding("Breaks first", "no layer", f"All relative errors of layers are at most {BREAKS:g}."))
    peer = comparison.onnxruntime
    if peer is not None and not peer.note:
        sign = "≤" if peer.holds else ">"
        text = (f"Relative error {number(peer.error, 2)} {sign} {number(AGREES, 2)}, largest difference "
                f"{number(peer.largest, 2)}, version {peer.version}.")  # fmt: skip
        answer = "agrees" if peer.holds else "differs"
        entries.append(Finding("fp32 against onnxruntime", answer, text, bad=not peer.holds))
    else:
        why = peer.note if peer is not None else "onnxruntime is not installed, or the model is not an ONNX file."
        entries.append(Finding("fp32 against onnxruntime", "not checked", why))
    return entries


def _none_keeps(comparison: ComparisonData, how: str) -> Finding:
    """Return the sentence if no arithmetic keeps the first metric, or if the samples are too few to tell."""
    name, others = comparison.metrics[0], comparison.results[1:]
    about = f"Cheapest that keeps {name}"
    unsure = [r for r in others if name in r.shares and r.shares[name].difference_interval[1] >= -KEEPS]
    if not unsure:
        return Finding(about, "none", f"None is within {how} of fp32.", bad=True)
    best = max(unsure, key=lambda r: r.shares[name].difference_interval[0])
    lowest = 100 * best.shares[name].difference_interval[0]
    text = (
        f"{best.shares[name].count:,} samples are too few to tell a loss of {how}: that of {best.name} may be up to "
        f"{-lowest:.2f} points, by its 95% interval, and no other’s is known to be less. More samples would tell."
    )
    return Finding(about, "not told", text)


def _cheaper(comparison: ComparisonData, best: Result) -> str:
    """The area of an arithmetic beside that of fp32, and the table that tells it."""
    fp32 = comparison.results[0]
    if charts.has_gates(comparison) and best.gates and fp32.gates:
        times = number(fp32.gates / best.gates)
        return f"{times} times the FMAs in the area of fp32’s, conversions included, by {TABLE_NAME}"
    return (
        f"{number(best.iso_area)} times the FMAs in the area of fp32’s multipliers, which count alone, as an operator "
        "has no row in hardware/areas.json"
    )


def _look(comparison: ComparisonData, result: Result) -> tuple[str, int]:
    return charts.colour_of(comparison, result)


def _scatters(comparison: ComparisonData) -> list[Chart]:
    scatters = [charts.accuracy(comparison)]
    if len(comparison.results) > 1:
        scatters.append(charts.error(comparison))
    return scatters


def _layer_rows(comparison: ComparisonData) -> list[dict[str, Any]]:
    rows = []
    layers = comparison.results[0].layers  # those that have run: positions may have gaps
    for n, name in zip([layer.position for layer in layers], charts.layer_names(comparison), strict=True):
        cells = []
        for result in comparison.results[1:]:
            error = next((layer.error for layer in result.layers if layer.position == n), None)
            # From an error of 10^-10, without tint, to 1, the full tint.
            tint = 0.0
            if error is not None and error > 0:
                tint = min(1.0, max(0.0, 1 + math.log10(error) / 10)) if math.isfinite(error) else 1.0
            is_broken = error is not None and not error <= BREAKS
            cells.append({"error": error, "tint": 1.0 if error != error else tint, "broken": is_broken})
        rows.append({"position": n, "name": name, "cells": cells})
    return rows


def _notes(comparison: ComparisonData) -> list[str]:
    """Return the reasons why statistics of some layers are missing."""
    notes: list[str] = []
    for result in comparison.results:
        rows = result.statistics.rows if result.statistics is not None else ()
        for note in dict.fromkeys(row.note for row in rows if row.note):
            layers = [row.layer for row in rows if row.note == note]
            where = (
                "all layers" if len(layers) == len(rows) else ", ".join(layers[:4]) + ("…" if len(layers) > 4 else "")
            )
            notes.append(f"{result.name}, {where}: {note}")
    return notes


def _tables(comparison: ComparisonData) -> dict[str, Any]:
    """Return the table of the contractions, with their operators under policies that use several operators."""
    rows = [{**row, "fmas": math.prod(row[size] or 1 for size in "bmnk")} for row in comparison.results[0].table]
    total = sum(row["fmas"] for row in rows) or 1
    plain = [r for r in comparison.results if _is_plain(r)]
    mixed = [r for r in comparison.results if not _is_plain(r)]
    operators = [[row["fma"] for row in r.table if row["position"] is not None] for r in mixed]
    return {
        "rows": [{**row, "share": row["fmas"] / total} for row in rows],
        "plain": [(r.name, r.operators[0] if r.operators else r.name) for r in plain],
        "mixed": [
            {"name": r.name, "text": r.policy, "rows": r.table, "fmas": fmas}
            for r, fmas in zip(mixed, operators, strict=True)
        ],
    }


def _is_plain(result: Result) -> bool:
    return len(result.policy.splitlines()) == 1 and result.policy.startswith("default ")
