"""How networks gain from threads: measured on two, and simulated on more from a profile."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

import numc
from benchmarks.cases import SCALING_BATCHES, STREAM_THREADS
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models.architectures import NETWORKS, network

Row = dict[str, Any]


def scaling(seconds: float, quick: bool) -> list[Row]:
    """Time each network in `fp32` on one and two threads, profile it on two, and simulate the sequence of its parts."""
    warnings.simplefilter("ignore")
    rows = []
    with torch.no_grad():
        for name in ["LSTM, 32 steps"] if quick else NETWORKS:
            for batch in SCALING_BATCHES:
                rows.append(_row(name, batch, seconds))
    return rows


def _row(name: str, batch: int, seconds: float) -> Row:
    module, inputs = network(name, batch)
    program = numc.compile(module, inputs)
    feeds = [x.numpy() for x in inputs]
    calls: dict[str, Call] = {str(n): functools.partial(program, *feeds, threads=n) for n in (1, 2)}
    timings = in_turns(calls, seconds=seconds, threads=2)
    profile = program.profile(*feeds, threads=2, repeat=10)
    sequence = {n: profile.schedule(threads=n).sequence for n in (1, *STREAM_THREADS)}
    row = {"model": name, "batch": batch, "seconds": timings["1"].best, "measured": ratio(timings, "1", "2")}
    return row | {f"simulated_{n}": sequence[1] / sequence[n] for n in STREAM_THREADS}
