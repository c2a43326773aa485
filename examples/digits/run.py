"""Classify 360 held-out digits under several FMA operators: accuracy, error of the logits, and time, next to fp32.

Run from anywhere: ``python examples/digits/run.py``. Needs only numc; the row of onnxruntime needs that.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table

import numc

HERE = Path(__file__).parent
OPERATORS = ("fp32", "mp", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}", "fmac(e6m9)", "fmac(e5m2)", "fmac(e4m3)")
BASELINE = "onnxruntime fp32"

NEXT = (
    "Next, a unit of your own: .venv/bin/numc compare examples/digits/cnn.onnx --fma 'mine=fma(a=e4m3fn,acc=fp16)' "
    "--data x=examples/digits/heldout.npz:images --labels examples/digits/heldout.npz --report mine.html"
)

F32Array = npt.NDArray[np.float32]
Run = Callable[[F32Array], F32Array]


@dataclass(frozen=True)
class Row:
    """One line of the table. relative_error: sum((x - r)^2) / sum(r^2) of the logits x and the fp32 logits r."""

    operator: str
    accuracy: float
    relative_error: float
    milliseconds: float
    ratio: float


def onnxruntime_run(model: Path, threads: int) -> Run | None:
    """Return the model under onnxruntime, or None if that is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return lambda x: np.asarray(session.run(None, {"x": x})[0])


def compile_all(model: Path, operators: Sequence[str], threads: int, note: Console) -> dict[str, Run]:
    """Compile `model` once for each operator. Raises numc.NumcError for an operator that does not exist."""
    runs: dict[str, Run] = {}
    for operator in track(operators, f"compiling {model.name}", console=note, transient=True):
        program: Any = numc.compile(model, fma=operator)
        runs[operator] = partial(program, threads=threads)
    if (other := onnxruntime_run(model, threads)) is not None:
        runs[BASELINE] = other
    return runs


def measure(runs: dict[str, Run], images: F32Array, labels: npt.NDArray[np.int64], repeat: int) -> list[Row]:
    """Run all operators in turns, `repeat` times each, so that other load affects all; report the fastest of each."""
    logits = {name: run(images) for name, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeat):
        for name, run in runs.items():
            start = time.perf_counter()
            run(images)
            best[name] = min(best[name], time.perf_counter() - start)
    exact = logits["fp32"].astype(np.float64)
    return [
        Row(
            name,
            float((out.argmax(1) == labels).mean()),
            float(((out - exact) ** 2).sum() / (exact**2).sum()),
            best[name] * 1e3,
            best[name] / best["fp32"],
        )
        for name, out in logits.items()
    ]


def show(rows: Sequence[Row], title: str) -> None:
    """Print the table."""
    table = Table(title=title)
    table.add_column("operator")
    for heading in ("test accuracy", "relative error", "time (ms)", "time / fp32"):
        table.add_column(heading, justify="right")
    for row in rows:
        error = "0" if row.relative_error == 0 else f"{row.relative_error:.1e}"
        table.add_row(row.operator, f"{row.accuracy:.2%}", error, f"{row.milliseconds:.2f}", f"{row.ratio:.2f}")
    Console().print(table)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw accuracy over time into a picture file. Needs matplotlib."""
    import matplotlib  # type: ignore[import-not-found, unused-ignore]

    matplotlib.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found, unused-ignore]

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for row in rows:
        axes.plot(row.ratio, 100 * row.accuracy, "o")
        axes.annotate(row.operator, (row.ratio, 100 * row.accuracy), (5, 5), textcoords="offset points", fontsize=8)
    axes.set(xlabel="time / fp32", ylabel="test accuracy (%)")
    figure.savefig(path)


def write_page(
    path: Path, model: Path, operators: Sequence[str], images: F32Array, labels: npt.NDArray[np.int64]
) -> None:
    """Write the page of numc.compare for the same operators. Needs jinja2."""
    with Console(stderr=True).status("writing a page"):
        comparison = numc.compare(model, images, labels=labels, fmas=operators, statistics=False)
        comparison.write_report(path)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("cnn", "mlp"), default="cnn")
    parser.add_argument("--fma", action="append", metavar="OPERATOR", help="instead of the default list; repeatable")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=9, help="timed runs of each, the fastest counts")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw accuracy over time (needs matplotlib)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write a page of HTML (needs jinja2)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Compile, run, report. Returns the exit status: 2 for bad input."""
    args = arguments(argv)
    if args.plot and importlib.util.find_spec("matplotlib") is None:
        print("run.py: --plot needs matplotlib, which is not installed: pip install matplotlib", file=sys.stderr)
        return 2
    held_out = np.load(HERE / "heldout.npz")
    images, labels = held_out["images"], held_out["labels"]
    operators = tuple(dict.fromkeys(("fp32", *(args.fma or OPERATORS))))
    try:
        runs = compile_all(HERE / f"{args.model}.onnx", operators, args.threads, Console(stderr=True))
        rows = measure(runs, images, labels, args.repeat)
        if args.page:
            write_page(args.page, HERE / f"{args.model}.onnx", operators, images, labels)
    except numc.NumcError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        show(rows, f"{args.model}.onnx on {len(images)} held-out images, {args.threads} thread(s)")
        if BASELINE not in runs:
            print("onnxruntime is not installed: no row for it")
    if args.plot:
        plot(rows, args.plot)
    if args.page:
        print(f"wrote {args.page}: open it in a browser. {NEXT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
