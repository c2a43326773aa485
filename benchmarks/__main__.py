"""``python -m benchmarks run`` measures, ``python -m benchmarks render`` writes the tables and plots of the pages."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.report import provenance
from benchmarks.report.render import render
from benchmarks.report.report import TABLES
from benchmarks.report.tables import rich

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PAGES = tuple(ROOT / "docs" / f"{page}.md" for page in ("performance", "performance-details", "memory"))
PLOTS = ROOT / "docs" / "performance"

Section = Callable[[float, bool], list[dict[str, Any]]]


def _sections() -> dict[str, tuple[Section, float]]:
    """The function of every section, and how many seconds it measures each group of calls that take turns."""
    from benchmarks.sections import (
        emulators,
        gemm,
        generation,
        instructions,
        matrix,
        networks,
        pieces,
        processes,
        quantised,
        scaling,
        search,
        streams,
        training,
        units,
        widths,
    )

    return {
        "gemm": (gemm.operators, 0.8),
        "sizes": (gemm.sizes, 0.4),
        "threads": (gemm.threads, 20),
        "skinny": (gemm.skinny, 0.5),
        "units": (units.units, 0.4),
        "own": (units.own, 3),
        "widths": (widths.widths, 0.5),
        "search": (search.search, 20),
        "models": (networks.models, 3),
        "batches": (networks.batches, 3),
        "narrow": (networks.narrow, 3),
        "convs": (networks.convs, 0.15),
        "pieces": (pieces.pieces, 0.2),
        "quantised": (quantised.quantised, 0.5),
        "packed": (gemm.packed, 6),
        "matrix": (matrix.matrix, 1),
        "emulators": (emulators.emulators, 0.5),
        "compile": (processes.compile_times, 0),
        "startup": (processes.startup, 0),
        "memory": (processes.memory, 0),
        "activations": (processes.activations, 0),
        "training": (training.training, 6),
        "statistics": (training.statistics, 12),
        "streams": (streams.streams, 12),
        "scaling": (scaling.scaling, 3),
        "generation": (generation.generation, 10),
        "instructions": (instructions.instructions, 0),
    }


@click.group()
def main() -> None:
    """Measure numc's arithmetic beside the tools that a user would use otherwise."""


@main.command()
@click.argument("sections", nargs=-1)
@click.option("--quick", is_flag=True, help="Fewer cases, fewer repetitions: to see that everything runs.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=RESULTS, help="Results; other sections in it are kept."
)
def run(sections: Sequence[str], quick: bool, output: Path) -> None:
    """Measure SECTIONS, or all of them if none is named; print tables and write the results as JSON."""
    known = _sections()
    if unknown := set(sections) - set(known):
        raise click.UsageError(f"no section {', '.join(sorted(unknown))}: choose from {', '.join(known)}")
    here = provenance.describe()
    results: dict[str, Any] = {"sections": {}}
    if sections and output.exists():
        results = json.loads(output.read_text())
    console = Console(width=None if Console().is_terminal else 160)
    for name in sections or known:
        function, seconds = known[name]
        start, load = time.perf_counter(), os.getloadavg()[0]
        if not (rows := function(seconds / 4 if quick else seconds, quick)):
            console.print(f"{name}: nothing to measure on this processor")
            continue
        took = time.perf_counter() - start
        record: dict[str, Any] = {"date": str(date.today()), "commit": provenance.commit(), "quick": quick}
        record |= {"machine": here, "load": load, "took": round(took), "rows": rows}
        results["sections"][name] = record
        for section, table, title in TABLES.values():
            if section == name:
                console.print(rich(title, table(rows)))
        # After each section, so that an interrupt loses one section at most.
        output.write_text(json.dumps(results, indent=1) + "\n")


@main.command(name="render")
@click.argument("results", type=click.Path(path_type=Path, exists=True), default=RESULTS)
def render_command(results: Path) -> None:
    """Write the marked blocks of the pages of performance and of memory, and the plots, from RESULTS."""
    from benchmarks.report.plots import draw

    content = json.loads(results.read_text())
    for page in PAGES:
        page.write_text(render(page.read_text(), content))
    for file in (*PAGES, *draw(content["sections"], PLOTS)):
        click.echo(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
