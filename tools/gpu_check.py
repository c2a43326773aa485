"""What a GPU does with numc's programs: ``python -m tools.gpu_check [-o FILE.json] [--emulate]``.

Conformance comes first: products of every operator on normal, wide and special operands, about 10^8 multiply-adds each,
against this processor's kernels, a model, and training steps. Then times: products of 4096 by 4096, beside the vendor's
float32, a step of ResNet-50, beside eager torch, and Nsight Compute's profile of the operator furthest below its aim.
It needs about ten minutes on a machine with a GPU; --emulate runs the same on small sizes without one, and measures
nothing. The exit status is 1 if a bit is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import numc
from tools.gpu_times import AIMS, Product, product, profile, slowest, step_times, times, training_step
from tools.house import ROOT

OPERATORS = (
    *("fp32", "mp", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}", "bf16_3_3{6}", "fmac(e6m9)", "fmac(fp16)"),
    *("fma(a=e5m2,acc=fp16,chunk=8)", "fma(a=bf16,acc=bf16x2,datapath=exact)", "hopper_bf16", "cdna3_fp16"),
    *("mxfp8", "highbfp", "int8", "nvfp4", "blackwell_nvfp4"),
)


def main(arguments: Sequence[str]) -> int:
    """Check and measure. Returns the exit status."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("-o", "--output", type=Path, help="results as JSON")
    options.add_argument("--emulate", action="store_true", help="small sizes, in emulation, without times")
    told = options.parse_args(arguments)
    if not told.emulate and not torch.cuda.is_available():
        print("gpu_check: torch finds no GPU: use --emulate", file=sys.stderr)
        return 2
    device = "cpu" if told.emulate else "cuda"
    results: dict[str, Any] = {
        "device": "emulated" if told.emulate else torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "conformance": conformance(device, (24, 20, 40) if told.emulate else (480, 460, 512)),
        "model": model(device),
        "training": training(device),
        "times": {} if told.emulate else times(4096),
        "step": {} if told.emulate else step_times(),
    }
    if results["times"]:
        results["profile"] = profile(slowest(results["times"]), 4096)
    show(results)
    if told.output is not None:
        told.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    compared = (*results["conformance"].values(), results["model"], results["training"])
    return int(any(row["wrong"] for row in compared))


def conformance(device: str, sizes: tuple[int, int, int]) -> dict[str, dict[str, int]]:
    """Wrong results of each operator, and how many multiply-adds were compared."""
    rows, depth, lanes = sizes
    rng = np.random.default_rng(0)
    found = {}
    for fma in OPERATORS:
        examples = torch.zeros(rows, depth), torch.zeros(depth, lanes)
        gpu = product(fma, *(each.to(device) for each in examples))
        here = numc.compile(Product(), examples, fma=fma)
        wrong = 0
        for kind in ("normal", "wide", "special"):
            a, b = (_operand(kind, shape, rng) for shape in ((rows, depth), (depth, lanes)))
            theirs, ours = gpu(a.to(device), b.to(device)).cpu(), here(a, b)
            wrong += _wrong(theirs, ours)
        found[fma] = {"wrong": wrong, "multiply-adds": 3 * rows * depth * lanes}
    return found


def model(device: str) -> dict[str, int]:
    """Wrong results of a convolutional network."""
    path = ROOT / "examples" / "digits" / "cnn.onnx"
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32))
    gpu = numc.compile(path, fma="bf16_1_1", ops="bf16", target="cuda").to(device)
    ours = torch.from_numpy(np.asarray(numc.compile(path, fma="bf16_1_1", ops="bf16")(x.numpy())))
    return {"wrong": _wrong(gpu(x.to(device)).cpu(), ours)}


def training(device: str) -> dict[str, int]:
    """Wrong losses of three training steps of a small residual network, whose parameters the first two change."""
    steps = [
        training_step("bf16_1_1", where, target=target, small=True)
        for where, target in ((device, "cuda"), ("cpu", "host"))
    ]
    theirs, ours = (torch.stack([step().cpu() for _ in range(3)]) for step in steps)
    return {"wrong": _wrong(theirs, ours)}


def _operand(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> torch.Tensor:
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "wide":
        x *= np.exp2(rng.integers(-60, 60, size=shape)).astype(np.float32)
    if kind == "special":
        which = rng.integers(0, 400, size=shape)
        for n, value in enumerate((0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-42, 3e38)):
            x[which == n] = value
    return torch.from_numpy(x)


def _wrong(theirs: torch.Tensor, ours: torch.Tensor) -> int:
    """The number of results with other bits; NaN are one value."""
    both = theirs.isnan() & ours.isnan()
    return int(((theirs.view(torch.int32) != ours.view(torch.int32)) & ~both).sum())


def show(results: dict[str, Any]) -> None:
    """Print a table of conformance and of times."""
    table = Table(title=f"numc on {results['device']}")
    for heading in ("operator", "wrong", "multiply-adds", "T/s", "of the vendor's float32", "aim, of the peak"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for fma, row in results["conformance"].items():
        speed = results["times"].get(fma, {})
        cells = [f"{value:.3g}" for value in speed.values()] or ["", ""]
        table.add_row(fma, str(row["wrong"]), f"{row['multiply-adds']:,}", *cells, str(AIMS.get(fma, "")))
    table.add_row("a model", str(results["model"]["wrong"]), "", "", "", "")
    table.add_row("a training", str(results["training"]["wrong"]), "", "", "", "")
    console = Console()
    console.print(table)
    if results["step"]:
        console.print(f"a step of ResNet-50 under bf16_1_1: {results['step']['ratio']:.2f} times eager torch (aim: 6)")
        console.print(results["profile"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
