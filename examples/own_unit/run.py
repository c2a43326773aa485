"""From the specification of a unit to its accuracy, vectors, RTL, area and one page, in one command.

Run from anywhere: ``python examples/own_unit/run.py``. The page is own_unit/index.html. Needs jinja2 for the page,
Verilator and g++ for the bench, and Yosys for the areas: without these, the bench is left out and the areas are those
that come with the example.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import page
import silicon
from accuracy import NETWORKS, measure
from variants import FP32, OTHERS, QUICK, VARIANTS

import numc
from numc.numerics.defined.loading import define_from

HERE = Path(__file__).parent


def define() -> None:
    """Make the unit known, also to the processes that do the work."""
    define_from(str(HERE / "unit.py"))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("own_unit"), metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="three variants, few samples and vectors, kept areas")
    parser.add_argument("--kept-areas", action="store_true", help="do not run Yosys: the areas of this example's table")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once; default: 2")
    return parser.parse_args(argv)


def collect(args: argparse.Namespace) -> page.Results:
    """Do all the work, in processes of their own; return what they found. Raises NumcError and OSError."""
    variants = [unit for unit in VARIANTS if not args.quick or unit.name in QUICK]
    without = "asked for" if args.quick or args.kept_areas else silicon.why_no_synthesis()
    waiting: dict[tuple[str, str], Future[Any]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, context, initializer=define) as pool:
        for network in NETWORKS:
            work = pool.submit(measure, network.name, [*variants, *OTHERS], 32 if args.quick else None)
            waiting["accuracy", network.name] = work
        for unit in variants:
            # The corners of one unit: those of its variants are much the same, and the reference takes its time.
            kinds, count = (("corner", "random", "dot"), 2000) if unit.name == "own" else (("random", "dot"), 500)
            if args.quick:
                kinds, count = ("random", "dot"), 50
            folder = args.output / unit.name.replace(" ", "-")
            waiting["bench", unit.name] = pool.submit(silicon.write, unit, kinds, count, folder)
            waiting["area", unit.name] = pool.submit(silicon.area, unit, anew=not without)
        results = {}
        for (what, name), future in waiting.items():
            results[what, name] = future.result()
            print(f"{what} of {name}", file=sys.stderr)
    areas = {unit.name: silicon.area(unit, anew=False) for unit in (FP32, *OTHERS)}
    return page.Results(
        units=(FP32, *variants, *OTHERS),
        accuracies={network.name: results["accuracy", network.name] for network in NETWORKS},
        benches={unit.name: results["bench", unit.name] for unit in variants},
        areas=areas | {unit.name: results["area", unit.name] for unit in variants},
        kept=without,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Do it all. Returns the exit status: 1 if the RTL differs from the definition, 2 for bad input."""
    args = arguments(argv)
    try:
        define()
        args.output.mkdir(parents=True, exist_ok=True)
        results = collect(args)
        (args.output / "index.html").write_text(page.render(results, HERE / "unit.py"), encoding="utf-8")
        (args.output / "results.json").write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
        rows = [asdict(results.areas[name]) for name in results.benches]
        (args.output / "areas.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    except (numc.NumcError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    print(page.text(results))
    print(f"wrote {args.output / 'index.html'}", file=sys.stderr)
    return 1 if any(bench.wrong for bench in results.benches.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
