"""Train five kinds of networks in block floating point and by FAST, from several seeds; print what it costs them.

Run from anywhere: ``python examples/fast_networks/run.py``. Needs torch, sacrebleu, and the packages of numc[studies]
that have the data. All arithmetics of a seed start from the same weights and see the same batches. Every finished run
is stored in a file: after Ctrl-C, the same command continues, and with more --seeds it adds what is missing.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("bf16xn", "formats_compared", "datasets")]
import needed
import network_tables
from arms import ARMS, FastTrainer
from networks import TASKS, Network
from results import Results
from study import carry_out, positive, status
from training import Outcome

SEEDS = 10
QUICK = {"steps": 4}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [task.name for task in TASKS]
    parser.add_argument("--task", choices=names, action="append", help="instead of all; repeatable")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--quick", action="store_true", help="four steps from one seed: other numbers")
    parser.add_argument("--results", type=Path, default=Path("fast_networks.jsonl"), metavar="FILE")
    return parser.parse_args(argv)


def tasks_of(quick: bool = False) -> list[Network]:
    """Return the tasks, or shortened ones."""
    return [replace(task, **QUICK) if quick else task for task in TASKS]


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, a seed after the other, and print what all of them gave."""
    tasks = [task for task in tasks_of(args.quick) if not args.task or task.name in args.task]
    needed.require_data(tasks)
    trainer, results = functools.cache(FastTrainer), Results(args.results, Outcome)
    seeds = range(1 if args.quick else args.seeds)
    carry_out(
        ((task, name, seed) for seed in seeds for task in tasks for name in ARMS),
        results,
        lambda task, name, seed, tick: trainer(task).run(name, seed, tick),
    )
    runs = {task: {name: results.runs(task, name, seeds) for name in ARMS} for task in tasks}
    print("\n\n".join(network_tables.tables(runs)))


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
