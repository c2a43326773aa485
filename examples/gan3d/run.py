"""Train a small 3DGAN on synthetic showers in fp32 and MP, and compare the showers' profiles.

Run from anywhere: ``python examples/gan3d/run.py``. Needs torch, and matplotlib for the picture. Both arithmetics of a
seed start from the same weights and see the same showers. Every finished run is stored in a file: after Ctrl-C, the
same command continues.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "formats_compared"))
import adversarial
import report
from results import Results
from study import carry_out, require, status


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=_seeds, default=10, metavar="N", help="0 to N - 1; default: 10")
    parser.add_argument("--quick", action="store_true", help="tiny networks, 4 steps: seconds, and other numbers")
    parser.add_argument("--results", type=Path, default=Path("gan3d.jsonl"), metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write distances and profiles as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the profiles (needs matplotlib): .png, .svg")
    return parser.parse_args(argv)


def _seeds(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"got {text!r}, want a whole number from 2: two seeds are compared")
    return int(text)


def report_runs(args: argparse.Namespace) -> None:
    """Carry out the missing runs, and print, write and draw what all of them gave."""
    require(args.plot, digits=False)
    gan = adversarial.QUICK if args.quick else adversarial.FULL
    seeds, names = range(args.seeds), (report.BASE, report.OTHER)
    trainer = adversarial.Trainer(gan)
    results = Results(args.results, adversarial.Outcome)
    missing = ((gan, name, seed) for seed in seeds for name in names)
    carry_out(missing, results, lambda _, name, seed, tick: trainer.run(seed, name, tick))
    runs = {name: results.runs(gan, name, seeds) or [] for name in names}
    truth = adversarial.truth(gan)
    found = report.distances(runs, truth)
    print(report.table(found))
    if args.json:
        profiles = {name: [run.profiles for run in mine] for name, mine in runs.items()}
        text = json.dumps({"distances": found, "simulation": truth, "profiles": profiles}, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    if args.plot:
        report.plot(args.plot, runs, truth)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out the missing runs and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    return status(report_runs, arguments(argv))


if __name__ == "__main__":
    sys.exit(main())
