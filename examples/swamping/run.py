"""Count, epoch by epoch, the additions of a training that lose no operand to swamping, in three small networks.

Run from anywhere: ``python examples/swamping/run.py``. Needs torch, scikit-learn (for the digits) and matplotlib (for
the picture). Every finished network is stored in a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "one_six_nine"))
import networks
import observed
import report

# Found in the folder that `networks` names.
from results import Results
from study import carry_out, require, status

import numc

SEED = 0
STEPS = 90


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=report.EXPECTED, action="append", help="instead of all; repeatable")
    parser.add_argument("--arithmetic", default="mp", metavar="NAME", help="a preset or an operator; default: mp")
    parser.add_argument("--quick", action="store_true", help="tiny networks, 6 steps: seconds, and other numbers")
    parser.add_argument("--results", type=Path, default=Path("swamping.jsonl"), metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all curves as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curves (needs matplotlib): .png, .svg")
    return parser.parse_args(argv)


def chosen(quick: bool, names: Sequence[str] | None) -> list[networks.Task]:
    """Return the tasks, in the order that is expected of them. names: instead of all."""
    return [
        replace(task, steps=6 if quick else STEPS)
        for name in report.EXPECTED
        for task in (networks.QUICK if quick else networks.FULL)
        if task.name == name and (not names or name in names)
    ]


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, and print, write and draw what all of them gave."""
    require(args.plot, digits=True)
    tasks = chosen(args.quick, args.network)
    numc.backend(args.arithmetic)  # refuses a wrong name before the first training
    results = Results(args.results, observed.Outcome)
    carry_out(((task, args.arithmetic, SEED) for task in tasks), results, observed.observe)
    runs = {task: results.find(task, args.arithmetic, SEED) for task in tasks}
    print(f"Additions without swamping in {args.arithmetic}, in per cent\n\n{report.table(runs)}")
    print(f"\nAt 8 bits in the last epoch, by role\n\n{report.roles(runs)}\n")
    print(f"Ascending at 8 bits in the thesis: {', '.join(report.EXPECTED)}")
    for denominator, names in report.order(runs).items():
        print(f"Ascending at 8 bits here, {report.TITLES[denominator]}: {', '.join(names)}")
    if args.json:
        args.json.write_text(json.dumps(report.data(runs), indent=1) + "\n", encoding="utf-8")
    if args.plot:
        report.plot(args.plot, runs)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
