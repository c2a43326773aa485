"""Train small networks on real data by the recipes of papers, from several seeds, and print what each of them costs.

Run from anywhere: ``python examples/recipes/run.py STUDY``. Needs torch and the packages of numc[studies] that have the
data. All recipes of a seed start from the same weights and see the same batches. Every finished run is stored in a
file: after Ctrl-C, the same command continues, and with more --seeds it adds what is missing.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("formats_compared", "datasets")]
import arms
import report
from problems import TASKS
from results import Results
from searches import SEARCHES, SearchTrainer
from sources import DataError
from study import RefusedError, carry_out, positive, status
from switches import SWITCHES, SwitchTrainer
from training import Outcome, Trainer
from unit import UNIT, UnitTrainer

SEEDS = {"booster": 10, "accumulators": 10, "unit": 10, "switch": 10, "search": 10, "all": 10}
"""Study -> the seeds of its page."""
TRAINERS: dict[str, Any] = {"unit": UnitTrainer, "switch": SwitchTrainer, "search": SearchTrainer}
"""Study -> its trainer, where that is not `Trainer`."""
QUICK = {"steps": 4, "last": 1}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "study", choices=SEEDS, help="booster, accumulators, unit (scaling), switch, search, or all recipes"
    )
    parser.add_argument("--arm", action="append", metavar="NAME", help="instead of all; the first is always there")
    names = [task.name for task in TASKS]
    parser.add_argument("--task", choices=names, action="append", help="of the study all, instead of all; repeatable")
    parser.add_argument("--seeds", type=positive, metavar="N", help="0 to N - 1; default: those of the page")
    parser.add_argument("--quick", action="store_true", help="four steps from one seed: other numbers")
    parser.add_argument("--results", type=Path, metavar="FILE", help="default: recipes_STUDY.jsonl")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="of the study all (needs matplotlib): .png, .svg")
    return parser.parse_args(argv)


def tasks_of(study: str, quick: bool = False) -> list[Any]:
    """Return the tasks of a study."""
    own: dict[str, list[Any]] = {"unit": [UNIT], "switch": list(SWITCHES), "search": list(SEARCHES), "all": list(TASKS)}
    tasks = own.get(study, list(TASKS[:1]))
    return [replace(task, **QUICK) for task in tasks] if quick else tasks


def arms_of(study: str) -> list[str]:
    """Return the names of the arms of a study; the first one is what others are compared with."""
    return list(TRAINERS[study].ARMS if study in TRAINERS else arms.STUDIES[study])


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, a seed after the other, and print what all of them gave."""
    args.results = args.results or Path(f"recipes_{args.study}.jsonl")
    tasks = [task for task in tasks_of(args.study, args.quick) if not args.task or task.name in args.task]
    names = arms_of(args.study)
    unknown = [name for name in args.arm or () if name not in names]
    if unknown:
        raise RefusedError(f"--arm {unknown[0]}: the study {args.study} has no such arm, want {', '.join(names)}")
    names = [name for name in names if name == names[0] or not args.arm or name in args.arm]
    try:
        for task in tasks:
            task.held_out()
    except DataError as error:
        raise RefusedError(str(error)) from None
    trainer = functools.cache(TRAINERS.get(args.study, Trainer))
    results = Results(args.results, Outcome)
    seeds = range(1 if args.quick else args.seeds or SEEDS[args.study])
    carry_out(
        ((task, name, seed) for seed in seeds for task in tasks for name in names),
        results,
        lambda task, name, seed, tick: trainer(task).run(name, seed, tick),
    )
    runs = {task: {name: results.runs(task, name, seeds) for name in names} for task in tasks}
    print("\n\n".join(report.tables(args.study, runs)))
    if args.plot:
        report.plot(runs, args.plot)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
