"""Train a small ResNet in the eleven arithmetics of FAST's table II, and under FAST itself; print tables, draw figures.

Run from anywhere: ``python examples/fast/run.py``. Needs torch, scikit-learn (for the digits) and matplotlib (for the
pictures). All trainings of a seed start from the same weights and see the same batches. Every finished run is stored in
a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("formats_compared", "figures")]
import pictures
import settings
import tables
from measured import Outcome, Runner
from published import COLUMNS
from results import Results
from spreads import spreads
from study import carry_out, positive, require, status
from tasks import Digits

FULL = Digits(8, batch=64, steps=300)
QUICK = Digits(2, (1,), batch=16, steps=20, rate=0.05)
STUDIES = {
    "table 2": COLUMNS,
    "figure 10": (*settings.STEPS, *settings.LAYERS),
    "figure 20": tuple(settings.CELLS),
}
SEEDS = 10


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=STUDIES, action="append", help="instead of all; repeatable")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--steps", type=positive, metavar="N", help="of every run, instead of 300")
    parser.add_argument("--target", type=float, default=80, metavar="PERCENT", help="of time to accuracy; default: 80")
    parser.add_argument("--quick", action="store_true", help="a tiny ResNet, one seed, 20 steps, three arithmetics")
    parser.add_argument("--results", type=Path, default=Path("fast.jsonl"), metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what the tables are made from")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw figures 6, 7, 19 and 20 (needs matplotlib)")
    return parser.parse_args(argv)


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, and print, write and draw what all of them gave."""
    require(args.plot, digits=True)
    task = QUICK if args.quick else FULL
    task = replace(task, steps=args.steps) if args.steps else task
    studies = args.study or (["table 2"] if args.quick else list(STUDIES))
    names = dict.fromkeys((settings.BASE, *(name for study in studies for name in STUDIES[study])))
    if args.quick:
        names = dict.fromkeys((settings.BASE, "LowBFP", settings.FAST))
    seeds = range(1 if args.quick else args.seeds)
    runner = functools.cache(Runner)
    results = Results(args.results, Outcome)
    carry_out(
        ((task, name, seed) for name in names for seed in seeds),
        results,
        lambda task, name, seed, tick: runner(task).run(name, seed, tick),
    )
    runs = {name: results.runs(task, name, seeds) or [] for name in names}
    print("\n\n".join(tables.all_of(runs, args.target)))
    if args.json:
        args.json.write_text(json.dumps(tables.data(runs, args.target), indent=1) + "\n", encoding="utf-8")
    if args.plot:
        args.plot.mkdir(parents=True, exist_ok=True)
        if settings.FAST in runs:
            pictures.widths(args.plot / "figure-19.png", runs[settings.FAST][0])
        if settings.CELLS.keys() <= runs.keys():
            pictures.groups(args.plot / "figure-20.png", runs)
        pictures.exponents(args.plot / "figures-6-7.png", spreads(task))


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
