"""Train a small ResNet and a small GRU encoder-decoder with dynamic precision, beside fp32, mp and a low arithmetic.

Run from anywhere: ``python examples/dynamic_precision/run.py``. Needs torch, scikit-learn (for the digits) and
matplotlib (for the pictures). All trainings of a seed start from the same weights and see the same batches. Every
finished run is stored in a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
import pictures
import settings
import tables
from copying import Copying
from results import Results
from settings import BASE, LOWS, MP, SWEPT
from study import RefusedError, carry_out, positive, require, status
from tasks import Digits
from training import Outcome, Trainer

FULL = (Digits(8, batch=64, steps=200), Copying())
QUICK = (Digits(2, (1,), batch=16, steps=12, rate=0.05), Copying(3, 2, 4, 8, steps=12))
STUDIES = ("tables", "sweeps")
SEEDS = 10


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=STUDIES, action="append", help="instead of both; repeatable")
    parser.add_argument("--network", choices=("resnet", "seq2seq"), action="append", help="instead of both")
    parser.add_argument("--low", choices=tuple(LOWS), action="append", help="of the tables, instead of both")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--steps", type=_steps, metavar="N", help="of every run, instead of the task's own number")
    parser.add_argument("--quick", action="store_true", help="the magnified low arithmetic, tiny networks, 12 steps")
    parser.add_argument("--results", type=Path, default=Path("dynamic_precision.jsonl"), metavar="FILE")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw the sweeps (needs matplotlib): NAME.png or .svg becomes NAME-resnet.png",
    )
    return parser.parse_args(argv)


def _steps(text: str) -> int:
    return positive(text, 7)  # the average of the losses begins after six


def train(args: argparse.Namespace, tasks: Sequence[Digits | Copying], results: Results) -> None:
    """Carry out the runs that are missing; those in fp32 come first, because the thresholds are taken from them."""
    lows = [LOWS[which] for which in args.low]
    changing, swept = settings.of_tables(lows), settings.of_sweeps(SWEPT)
    dynamic = {one.name: one for one in (*changing, *swept)}
    trainer = functools.cache(Trainer)

    def run(task: Digits | Copying, name: str, seed: int, tick: Callable[[], None]) -> Outcome:
        reference = results.find(task, BASE, seed)
        return settings.run(trainer(task), dynamic.get(name, name), seed, tick, reference)

    studies = {
        "tables": [BASE, MP, *lows, *(one.name for one in changing)],
        "sweeps": [BASE, *(one.name for one in swept)],
    }
    runs = [
        (task, name, seed)
        for study in args.study
        for seed in range(args.seeds)
        for task in tasks
        for name in studies[study]
    ]
    carry_out(dict.fromkeys(runs), results, run)  # the studies share some


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, and print and draw what all of them gave."""
    args.study = args.study or list(STUDIES)
    args.low = args.low or (["magnified"] if args.quick else list(LOWS))
    tasks = [task for task in (QUICK if args.quick else FULL) if not args.network or task.name in args.network]
    tasks = [replace(task, steps=args.steps) if args.steps else task for task in tasks]
    require(args.plot, any(task.name == "resnet" for task in tasks), ", or --network seq2seq")
    if args.plot and (args.plot.suffix not in (".png", ".svg") or not args.plot.parent.is_dir()):
        raise RefusedError(f"--plot: got {args.plot}, want the name of a .png or .svg file in a folder that exists")
    results = Results(args.results, Outcome)
    train(args, tasks, results)
    if "tables" in args.study:
        print(tables.qualities(results, tasks, args.low, range(args.seeds)))
        print("\n" + tables.orders(results, tasks, args.low, range(args.seeds)))
        print("\n" + tables.speed_ups(results, tasks, args.low, range(args.seeds)))
    if "sweeps" in args.study:
        print("\n" + tables.sweeps(results, tasks, range(args.seeds)))
        if args.plot:
            pictures.plot(args.plot, results, tasks, range(args.seeds))


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
