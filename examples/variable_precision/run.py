"""Experiments of Au Liang Jun, "A Variable Precision GPU Architecture for Deep Learning" (2021), on the digits nets.

Run from anywhere: ``python examples/variable_precision/run.py significand``. Results: docs/variable-precision.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import measure
import published
import show
import sweeps
import weight_widths

import numc

WIDTHS = "widths"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=(*sweeps.TITLES, WIDTHS))
    parser.add_argument("--model", choices=measure.MODELS, help="one model; otherwise both")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw them, as PNG or SVG (needs matplotlib)")
    return parser.parse_args(argv)


def sweep(args: argparse.Namespace) -> None:
    """Run an experiment beside its published numbers."""
    title = sweeps.TITLES[args.experiment]
    rows = sweeps.run(args.experiment, (args.model,) if args.model else measure.MODELS)
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        show.table(show.sweep(rows), title)
        source = published.SOURCES[args.experiment]
        print(f"published: {', '.join(published.NETWORKS.values())} on MNIST, {source}", file=sys.stderr)
    if args.plot:
        show.save(args.plot, title, partial(show.draw_sweep, rows=rows))


def widths(args: argparse.Namespace) -> None:
    """Count the bits that the weights need."""
    title = "Bits that the weights need"
    bins = weight_widths.run((args.model,) if args.model else measure.MODELS)
    if args.json:
        print(json.dumps([asdict(one) for one in bins], indent=1))
    else:
        show.table(show.widths(bins), title)
    if args.plot:
        show.save(args.plot, title, partial(show.draw_widths, bins=bins))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one experiment. Returns the exit status: 2 for bad input."""
    args = arguments(argv)
    try:
        if args.plot and importlib.util.find_spec("matplotlib") is None:
            raise numc.NumcError("--plot needs matplotlib, which is not installed: pip install matplotlib")
        if args.plot and not args.plot.parent.is_dir():
            raise numc.NumcError(f"--plot {args.plot}: there is no folder {args.plot.parent}")
        (widths if args.experiment == WIDTHS else sweep)(args)
    except (numc.NumcError, OSError, ValueError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
