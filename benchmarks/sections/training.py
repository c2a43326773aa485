"""Training steps under torch.compile against eager torch: time, statistics, and a switch of arithmetic."""

from __future__ import annotations

import copy
import functools
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

import numc
from benchmarks.cases import (
    STATISTICS_EVERY,
    STATISTICS_OPERATORS,
    STATISTICS_SAMPLE,
    STATISTICS_SHARE,
    SWITCH_SECONDS,
    TRAINING,
)
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models.architectures import STEPS
from benchmarks.peers import native
from numc.train import EpochStatistics

Row = dict[str, Any]
_STEPS = 2_000_000  # of the loop at the peak rate: the start of its threads does not count


def training(seconds: float, quick: bool) -> list[Row]:
    """Time a step of each network on two threads, in turns with eager torch and inductor; and a switch.

    ``alone`` is the time of the step's multiply-adds at the peak rate of the vector units, over that of the peers.
    """
    warnings.simplefilter("ignore")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    rows = []
    for name in ["LSTM, 20 x 35 tokens"] if quick else STEPS:
        rows += _steps(name, seconds)
    torch.set_num_threads(threads)
    return [*rows, _switch(seconds / 4)]


def _steps(name: str, seconds: float) -> list[Row]:
    from train_step import training as make

    torch._dynamo.reset()
    case = STEPS[name]
    torch.manual_seed(0)
    start, inputs = case.model().train(), case.inputs()
    calls: dict[str, Call] = {}
    for what in (*TRAINING, "eager", "inductor"):
        step = make(copy.deepcopy(start), case, "eager")
        step(*inputs)  # makes the state of the optimizer, without which a step would be compiled twice
        if what != "eager":
            step = torch.compile(step, backend=what if what == "inductor" else numc.backend(what))
        calls[what] = functools.partial(step, *inputs)
    peak = functools.partial(native.two_peaks, _STEPS)
    timings = in_turns({**calls, "peak": peak}, seconds=seconds, threads=2)
    with numc.profile() as profiled:
        calls["fp32"]()
    flops = 2 * sum(row.fmas for row in profiled.profile.rows)
    alone = flops * timings["peak"].best / peak()
    theirs = {f"{peer}_seconds": timings[peer].best for peer in ("eager", "inductor")}
    rows = []
    for operator, bar in TRAINING.items():
        row = {"model": name, "operator": operator, "seconds": timings[operator].best, **theirs}
        row |= {"ratio": timings[operator].best / min(theirs.values()), "alone": alone / min(theirs.values())}
        rows.append({**row, "must": bar.must, "aim": bar.aim})
    return rows


def _switch(seconds: float) -> Row:
    """Time by how much a call takes longer if the call before it had another arithmetic, for a model of no cost."""
    compiled = torch.compile(torch.nn.Linear(4, 4), backend=numc.backend())
    x = torch.ones(1, 4)

    def run(*names: str) -> None:
        for _ in range(20):
            for name in names:
                with numc.arithmetic(name):
                    compiled(x)

    calls = {"same": lambda: run("mp", "mp"), "other": lambda: run("mp", "bf16_1_1"), "as it is": lambda: compiled(x)}
    timings = in_turns(calls, seconds=seconds)
    row = {"plain_seconds": timings["as it is"].best, "switch_must": SWITCH_SECONDS}
    return {**row, "same_seconds": timings["same"].best / 40, "other_seconds": timings["other"].best / 40}


def statistics(seconds: float, quick: bool) -> list[Row]:
    """Compare the CPU time of a step of ResNet-18 with that of a step which EpochStatistics observes."""
    from train_step import training as make
    from zoo import FULL

    warnings.simplefilter("ignore")
    case = FULL["resnet18"]
    rows = []
    for operator in STATISTICS_OPERATORS[:1] if quick else STATISTICS_OPERATORS:
        torch.manual_seed(0)
        step, inputs = make(case.model(), case, operator), case.inputs()
        step(*inputs)
        with tempfile.TemporaryDirectory() as folder:
            observer = EpochStatistics(STATISTICS_SAMPLE, every=1, file=Path(folder) / "statistics.jsonl")

            def observed(step: Any = step, inputs: Any = inputs, observer: EpochStatistics = observer) -> None:
                with observer:
                    step(*inputs)

            calls = {"plain": lambda s=step, i=inputs: s(*i), "observed": observed}
            timings = in_turns(calls, seconds=seconds)
            size = (Path(folder) / "statistics.jsonl").stat().st_size / len(observer.rows)
        row = {"model": "resnet18", "operator": operator, "sample": STATISTICS_SAMPLE, "every": STATISTICS_EVERY}
        row |= {name: timing.best for name, timing in timings.items()}
        row |= {"kib": size / 1024, "share": (ratio(timings, "observed", "plain") - 1) / STATISTICS_EVERY}
        rows.append({**row, "aim": STATISTICS_SHARE})
        torch._dynamo.reset()
    return rows
