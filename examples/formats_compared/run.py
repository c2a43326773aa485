"""Train a small ResNet and a small LSTM in several arithmetics, from several seeds; print a table, draw the losses.

Run from anywhere: ``python examples/formats_compared/run.py``. Needs torch, scikit-learn (for the digits) and
matplotlib (for the picture). All arithmetics of a seed start from the same weights and see the same batches. Every
finished run is stored in a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import report
import torch
from missing import carry_out
from results import Results, ResultsError
from tasks import FULL, QUICK, Digits, Language, Task
from training import Outcome, Trainer, arithmetic

import numc

DEPTHS = (1, 2, 4)
"""Blocks in each stage of the ResNets of --depths."""
DEEP = ("fp32", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}")
ARITHMETICS = ("fp32", "mp", "bf16_1_1", "bf16_1_1 with update=fp32", "bf16_1_2", "bf16_2_2{3}", "bf16_3_3{6}")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=("resnet", "lstm"), action="append", help="instead of both")
    parser.add_argument(
        "--arithmetic",
        action="append",
        metavar="NAME",
        help="a preset or an operator, instead of the default list; fp32 is always there; repeatable. "
        "'bf16_1_1 with update=fp32 wgrad=mp' gives roles their own",
    )
    parser.add_argument("--depths", action="store_true", help="narrow ResNets of 1, 2 and 4 blocks in a stage instead")
    parser.add_argument("--seeds", type=_positive, default=5, metavar="N", help="0 to N - 1; default: 5")
    parser.add_argument("--steps", type=_positive, metavar="N", help="of every run, instead of the task's own number")
    parser.add_argument("--quick", action="store_true", help="tiny networks, 8 steps: seconds, and other numbers")
    parser.add_argument("--results", type=Path, default=Path("formats_compared.jsonl"), metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the losses (needs matplotlib): .png, .svg")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"got {text!r}, want a whole number from 1")
    return int(text)


def _chosen(args: argparse.Namespace) -> Iterator[Task]:
    tasks = QUICK if args.quick else FULL
    if args.depths:
        one = QUICK[0] if args.quick else Digits(8, batch=64, steps=200)
        tasks = tuple(replace(one, depths=(blocks,) * len(one.depths)) for blocks in DEPTHS)
    for task in tasks:
        if not args.network or task.name in args.network:
            yield replace(task, steps=args.steps) if args.steps else task


def _lacking(args: argparse.Namespace, tasks: Sequence[Task]) -> str:
    """Return what is missing here for these arguments, or nothing."""
    if not tasks:
        return "--depths trains ResNets only: leave out --network lstm"
    if any(task.name == "resnet" for task in tasks) and importlib.util.find_spec("sklearn") is None:
        return "the digits come from scikit-learn, which is not installed: pip install scikit-learn, or --network lstm"
    if args.plot and importlib.util.find_spec("matplotlib") is None:
        return "--plot needs matplotlib, which is not installed: pip install matplotlib"
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    args = arguments(argv)
    tasks, seeds = list(_chosen(args)), range(args.seeds)
    names = list(dict.fromkeys((report.BASE, *(args.arithmetic or (DEEP if args.depths else ARITHMETICS)))))
    if why := _lacking(args, tasks):
        print(f"run.py: {why}", file=sys.stderr)
        return 2
    # Sums that torch computes itself, such as the gradient of an embedding, have one order on one thread.
    torch.set_num_threads(1)
    torch._logging.set_logs(dynamo=logging.ERROR)
    trainer = functools.cache(Trainer)

    def in_arithmetic(task: Task, name: str, seed: int, tick: Callable[[], None]) -> Outcome:
        with arithmetic(name):
            return trainer(task).run(seed, tick)

    try:
        for name in names:
            arithmetic(name)  # refuses a wrong name before hours of training
        results = Results(args.results)
        runs = ((task, name, seed) for seed in seeds for task in tasks for name in names)
        carry_out(runs, results, in_arithmetic)
    except (numc.NumcError, ResultsError, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"run.py: stopped; finished runs are in {args.results}: the same command goes on", file=sys.stderr)
        return 130
    runs = [report.collect(results, task, names, seeds) for task in tasks]
    print(report.table(tasks, runs, names))
    for task in tasks:
        if isinstance(task, Language):
            print(f"\nThe lowest perplexity that this language allows is {task.floor():.3f}.")
    if args.plot:
        report.plot(args.plot, tasks, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
