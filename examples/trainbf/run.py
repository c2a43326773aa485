"""Train five small networks in bfloat16 alone, with more and more of TrainBF's techniques; print tables, draw them.

Run from anywhere: ``python examples/trainbf/run.py``. Needs torch, scikit-learn (for the digits) and matplotlib (for
the picture). All variants of a seed start from the same weights and see the same batches. Every finished run is stored
in a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

# Behind the folder of this script, whose modules `tasks` and `training` are others.
sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
import report
import torch
from results import Results
from study import RefusedError, positive, status
from tasks import FULL, QUICK, Task
from training import VARIANTS, Outcome, Trainer, chosen_layers

THRESHOLD = 0.01
SEEDS = 10


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [task.name for task in FULL]
    parser.add_argument("--network", choices=names, action="append", help="instead of all; repeatable")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--steps", type=positive, metavar="N", help="of every run, instead of the task's own number")
    parser.add_argument("--quick", action="store_true", help="a tiny MLP, 4 steps, 2 seeds: other numbers")
    parser.add_argument("--results", type=Path, default=Path("trainbf.jsonl"), metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that the tables are made from")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results (needs matplotlib): .png, .svg")
    return parser.parse_args(argv)


def train(tasks: Sequence[Task], seeds: Sequence[int], results: Results) -> None:
    """Carry out the runs that are missing."""
    for task in tasks:
        trainers: dict[str, Trainer] = {}
        for name, variant in VARIANTS.items():
            for seed in seeds:
                if results.find(task, name, seed) is not None:
                    continue
                key = json.dumps(variant.techniques)
                if key not in trainers:
                    torch._dynamo.reset()  # torch traces one function for a limited number of models
                    trainers = {key: Trainer(task, variant.techniques)}
                print(f"{task.title}, {name}, seed {seed}", file=sys.stderr)
                results.add(task, name, seed, trainers[key].run(seed, variant.arithmetic))


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, and print, write and draw what all of them gave."""
    tasks = [task for task in (QUICK if args.quick else FULL) if not args.network or task.name in args.network]
    tasks = [replace(task, steps=args.steps) if args.steps else task for task in tasks]
    seeds = range(2 if args.quick else args.seeds)
    for package, needed in (("sklearn", True), ("matplotlib", bool(args.plot))):
        if needed and importlib.util.find_spec(package) is None:
            raise RefusedError(f"{package} is not installed: pip install scikit-learn matplotlib")
    results = Results(args.results, Outcome)
    train(tasks, seeds, results)
    chosen = {task.name: chosen_layers(task, THRESHOLD) for task in tasks}
    runs = [report.collect(results, task, seeds) for task in tasks]
    for task, mine in zip(tasks, runs, strict=True):
        print(f"\n**{task.title}**\n\n{report.table(mine)}\n")
        print("\n".join(f"- {line}" for line in report.orders(mine)))
        print(f"- layers that the modifier chooses at {THRESHOLD:.0%}: {', '.join(chosen[task.name]) or 'none'}")
    print(f"\n{report.parts(tasks, runs)}")
    if args.json:
        rows = [
            {
                "task": asdict(task),
                "chosen": chosen[task.name],
                "orders": report.orders(mine),
                "runs": {name: [asdict(run) for run in found] for name, found in mine.items()},
            }
            for task, mine in zip(tasks, runs, strict=True)
        ]
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.plot:
        report.plot(args.plot, tasks, runs)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
