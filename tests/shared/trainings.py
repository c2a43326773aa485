"""The folder of a made-up training: what a report of trainings shows, without a compiler and without PyTorch."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path

from numc.compiler.arrays.statistics import WHAT, Histogram, LayerStatistics, Statistics, TensorStatistics
from numc.train import Decision, RunFolder, StepStatistics

LAYERS = ("stem/<conv>", "head")
ROLES = ("forward", "dgrad", "wgrad")
HIGH, LOW = "mp", "bf16_1_1"


def made_up_run(folder: Path, *, steps: int = 60, block: int = 7, every: int = 10, seed: int = 0) -> RunFolder:
    """Write a training in 3 epochs that goes from one arithmetic to the other after every `block` steps."""
    random.seed(seed)
    run, decisions, statistics = RunFolder(folder), [], []
    fmas = {("forward", HIGH): 0, ("forward", LOW): 0, ("update", "fp32"): 0}
    for step in range(steps):
        used, after = ((LOW if n // block % 2 else HIGH) for n in (step, step + 1))
        values = {"loss": 0.3 + 3 * math.exp(-5 * step / steps) + random.gauss(0, 0.05), "drop": 0.01 * (step % 5)}
        reason = "" if used == after else f"goes on in {after}: the average <b>fell</b>"
        decisions.append(json.dumps(Decision(step, used, values, after, reason).to_json()))
        fmas["forward", used] += 990
        fmas["update", "fp32"] += 10
        epoch = 3 * step // steps
        if step % every == 0:
            statistics.append(json.dumps(StepStatistics(epoch, step, _statistics(used, step / steps)).to_json()))
        if (step + 1) % (steps // 6) == 0:
            run.record(step, epoch=epoch, fmas=fmas, top1=step / steps, val_loss=2 - step / steps)
    run.decisions.write_text("\n".join(decisions) + "\n")
    run.statistics.write_text("\n".join(statistics) + "\n")
    return run


def _statistics(fma: str, done: float) -> Statistics:
    """Swamping and denormals grow while the training goes on, exponents fall."""
    rows = []
    for n, layer in enumerate(LAYERS):
        for role in ROLES:
            fraction = 0.5 * done * (n + 1) / len(LAYERS) * (1 if role == "forward" else 0.5)
            most = {"rounded_subnormals": fraction, "flushed": fraction / 2}
            bell = _bell(-3 - n - int(9 * done), 4 + int(3 * done))
            rounded, flushed = int(1000 * fraction), int(500 * fraction)
            tensor = TensorStatistics(
                elements=1000,
                zeros=10,
                subnormals=0,
                infinities=0,
                nans=0,
                exponents=bell,
                format="bf16",
                overflows=0,
                most=most,
                rounded_subnormals=rounded,
                flushed=flushed,
            )
            tensors = dict.fromkeys(("a", "b", "result"), tensor)
            counts = tuple(int(1000 * math.exp(-d / (3 + 5 * done))) for d in range(32))
            swamping, name = Histogram(0, counts), layer if role == "forward" else f"{layer}/{role}"
            rows.append(
                LayerStatistics(
                    name, role, len(rows), fma, 5000, 1, swamping, Fraction(1, 16), tensors, None, "", 2 * sum(counts)
                )
            )
    return Statistics(tuple(rows), WHAT, Fraction(1, 16), {("update", "fp32"): 50})


def _bell(middle: int, wide: int) -> Histogram:
    return Histogram(middle - wide, tuple(1000 >> abs(n) for n in range(-wide, wide + 1)))
