"""Whole models under several FMA operators, next to onnxruntime's fp32 in the same run.

    python benchmarks/models.py [--json results.json] [--threads 1,2] [--repeat 5]

Times are the best of the repeats; onnxruntime and numc take turns, so that the ratio holds when the machine's speed
drifts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx.backend.test
import onnxruntime
from rich.console import Console
from rich.table import Table

import numc

ROOT = Path(__file__).resolve().parents[1]
RESNET50 = Path(onnx.backend.test.__file__).parent / "data" / "light" / "light_resnet50.onnx"
MODELS = {
    "light_resnet50, batch 1": (RESNET50, {"gpu_0/data_0": (1, 3, 224, 224)}),
    "digits CNN, batch 360": (ROOT / "examples/digits/cnn.onnx", {"x": (360, 64)}),
    "transformer encoder, batch 8": (ROOT / "examples/models/transformer.onnx", {"x": (8, 16, 64)}),
    "LSTM, batch 8": (ROOT / "examples/models/lstm.onnx", {"x": (8, 16, 16)}),
}
OPERATORS = ("fp32", "mp", "bf16_1_1", "bf16_1_2", "bf16_2_2{4}", "fmac(e6m9)")


def seconds(first: Callable[[], object], second: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Return the best times of two calls that take turns."""
    best = [float("inf"), float("inf")]
    for _ in range(repeat + 1):  # the first round warms up and is mostly beaten
        for n, call in enumerate((first, second)):
            start = time.perf_counter()
            call()
            best[n] = min(best[n], time.perf_counter() - start)
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    rows = []
    for name, (path, shapes) in MODELS.items():
        rng = np.random.default_rng(0)
        feeds = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
        programs = {fma: numc.compile(path, fma=fma) for fma in OPERATORS}
        for threads in map(int, arguments.threads.split(",")):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = threads, 3
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            for fma, program in programs.items():
                ours, theirs = seconds(
                    lambda p=program, t=threads, f=feeds: p(f, threads=t),
                    lambda s=session, f=feeds: s.run(None, f),
                    arguments.repeat,
                )
                rows.append({"model": name, "threads": threads, "fma": fma, "seconds": ours, "onnxruntime": theirs})
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    table = Table("model", "threads", "operator", "ms", "onnxruntime fp32, ms", "ratio")
    for row in rows:
        ours, theirs = float(row["seconds"]), float(row["onnxruntime"])
        cells = (
            row["model"],
            row["threads"],
            row["fma"],
            f"{ours * 1e3:.2f}",
            f"{theirs * 1e3:.2f}",
            f"{ours / theirs:.2f}",
        )
        table.add_row(*map(str, cells))
    Console(width=None if Console().is_terminal else 120).print(table)


if __name__ == "__main__":
    main()
