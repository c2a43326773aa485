"""Train a small ResNet and a small LSTM in several arithmetics, from several seeds; print a table, draw the losses.

Run from anywhere: ``python examples/formats_compared/run.py``. Needs torch, scikit-learn (for the digits) and
matplotlib (for the picture). All arithmetics of a seed start from the same weights and see the same batches. Every
finished run is stored in a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import report
from results import Results
from study import RefusedError, carry_out, positive, require, status
from tasks import FULL, QUICK, SCALED, SCALED_QUICK, Digits, Language, Task
from training import Outcome, Trainer, arithmetic

DEPTHS = (1, 2, 4)
"""Blocks in each stage of the ResNets of --depths."""
DEEP = ("fp32", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}")
FEW = ("fp32", "bf16_1_1", "bf16_1_1 with update=fp32")
"""Those of --quick."""
RECIPES = (
    "fp32",
    "nvfp4@blackwell",
    "mxfp8@blackwell",
    "deepseek_fp8@hopper",
    "te_fp8@hopper",
    "gpt_oss_mxfp4@hopper",
    "deepseek_fp8@blackwell",
    "te_fp8@blackwell",
)
"""Those of --recipes."""
SEEDS = 10
ARITHMETICS = ("fp32", "mp", "bf16_1_1", "bf16_1_1 with update=fp32", "bf16_1_2", "bf16_2_2{3}", "bf16_3_3{6}")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    networks = ("resnet", "lstm", "transformer")
    parser.add_argument("--network", choices=networks, action="append", help="instead of all; a transformer: --recipes")
    parser.add_argument(
        "--arithmetic",
        action="append",
        metavar="NAME",
        help="a preset or an operator, instead of the default list; fp32 is always there; repeatable. "
        "'bf16_1_1 with update=fp32 wgrad=mp' gives roles their own",
    )
    parser.add_argument("--depths", action="store_true", help="narrow ResNets of 1, 2 and 4 blocks in a stage instead")
    parser.add_argument("--recipes", action="store_true", help="a ResNet and a transformer by recipes of fp8 and fp4")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"0 to N - 1; default: {SEEDS}")
    parser.add_argument("--steps", type=positive, metavar="N", help="of every run, instead of the task's own number")
    parser.add_argument("--quick", action="store_true", help="three arithmetics, tiny networks, 8 steps: other numbers")
    parser.add_argument("--results", type=Path, default=Path("formats_compared.jsonl"), metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the losses (needs matplotlib): .png, .svg")
    return parser.parse_args(argv)


def _chosen(args: argparse.Namespace) -> Iterator[Task]:
    tasks = QUICK if args.quick else FULL
    if args.recipes:
        tasks = SCALED_QUICK if args.quick else SCALED
    if args.depths:
        one = QUICK[0] if args.quick else Digits(8, batch=64, steps=200)
        tasks = tuple(replace(one, depths=(blocks,) * len(one.depths)) for blocks in DEPTHS)
    for task in tasks:
        if not args.network or task.name in args.network:
            yield replace(task, steps=args.steps) if args.steps else task


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, and print and draw what all of them gave."""
    tasks, seeds = list(_chosen(args)), range(args.seeds)
    default = FEW if args.quick else DEEP if args.depths else RECIPES if args.recipes else ARITHMETICS
    names = list(dict.fromkeys((report.BASE, *(args.arithmetic or default))))
    if not tasks:
        if args.depths:
            raise RefusedError("--depths trains ResNets only: leave out --network lstm")
        wanted = "--network lstm is not with --recipes" if args.recipes else "--network transformer needs --recipes"
        raise RefusedError(f"{wanted}: want another network")
    require(args.plot, any(task.name == "resnet" for task in tasks), ", or --network lstm")
    trainer = functools.cache(Trainer)

    def in_arithmetic(task: Task, name: str, seed: int, tick: Callable[[], None]) -> Outcome:
        with arithmetic(name):
            return trainer(task).run(seed, tick)

    for name in names:
        arithmetic(name)  # refuses a wrong name before hours of training
    results = Results(args.results, Outcome)
    carry_out(((task, name, seed) for seed in seeds for task in tasks for name in names), results, in_arithmetic)
    runs = [report.collect(results, task, names, seeds) for task in tasks]
    print(report.table(tasks, runs, names))
    for task in tasks:
        if isinstance(task, Language):
            print(f"\nThe lowest perplexity that this language allows is {task.floor():.3f}.")
    if args.plot:
        report.plot(args.plot, tasks, runs)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
