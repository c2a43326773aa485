"""Train four small networks in 1/5/10 and 1/6/9, with and without denormals and loss scaling, as Popescu and others.

Run from anywhere: ``python examples/one_six_nine/run.py``. Needs torch, scikit-learn (for the digits) and matplotlib
(for the picture). All arithmetics of a network start from the same weights and see the same batches. Every finished
run is stored in a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
import arithmetics
import report
from networks import FULL, QUICK
from results import Results
from scaled import Outcome, Trainer
from study import carry_out, positive, require, status

SEEDS = 10


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [task.name for task in FULL]
    parser.add_argument("--network", choices=names, action="append", help="instead of all; repeatable")
    parser.add_argument("--operator", choices=arithmetics.OPERATORS, action="append", help="instead of both")
    parser.add_argument("--sums", action="store_true", help="also 1/6/9/n FMAC-8 whose sums of elements are fp32")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--quick", action="store_true", help="a tiny ResNet, FMAC-8, one seed, 4 steps: other numbers")
    parser.add_argument("--results", type=Path, default=Path("one_six_nine.jsonl"), metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw figures 2 and 3 (needs matplotlib): .png, .svg")
    return parser.parse_args(argv)


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, and print, write and draw what all of them gave."""
    require(args.plot, digits=True)
    chosen = args.network or (["resnet"] if args.quick else [task.name for task in FULL])
    tasks = [task for task in (QUICK if args.quick else FULL) if task.name in chosen]
    operators = args.operator or list(arithmetics.OPERATORS)[: 1 if args.quick else None]
    names = [name for name in arithmetics.ALL if name == arithmetics.BASE or any(o in name for o in operators)]
    names += arithmetics.WITH_SUMS if args.sums else ()
    trainer = functools.cache(Trainer)
    results = Results(args.results, Outcome)
    seeds = range(1 if args.quick else args.seeds)
    carry_out(
        ((task, name, seed) for task in tasks for name in names for seed in seeds),
        results,
        lambda task, name, seed, tick: trainer(task).run(
            seed, arithmetics.policy(name), name.endswith(arithmetics.SCALED), tick
        ),
    )
    runs = {(task, name): results.runs(task, name, seeds) or [] for task in tasks for name in names}
    found = report.Report(tasks, operators, runs)
    print(found.text())
    if args.json:
        args.json.write_text(json.dumps(found.data(), indent=1) + "\n", encoding="utf-8")
    if args.plot:
        found.plot(args.plot)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
