"""Times of contractions in matrix registers, where the processor has them, against those without and against peers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

import numc
from benchmarks.cases import GEMM_SHAPES
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models import graphs
from benchmarks.peers.peers import onnxruntime_call
from benchmarks.sections.gemm import operands
from benchmarks.sections.quantised import models
from numc.compiler.targets import resolve
from numc.runtime.library import usable_features

Row = dict[str, Any]

_WITHOUT = "x86-64-v4-vnni"


def matrix(seconds: float, quick: bool) -> list[Row]:
    """Time each on one thread: products of bfloat16 numbers against torch, quantised models against onnxruntime."""
    if resolve("host", usable_features()).isa.matrix is None:
        return []
    torch.set_num_threads(1)
    with graphs.folder() as folder:
        cases = chain(_products(), _quantised(Path(folder)))
        return [_row(*each, seconds) for each in islice(cases, 1 if quick else None)]


def _products() -> Iterator[tuple[str, str, dict[str, Call]]]:
    for m, n, k in GEMM_SHAPES:
        a, b = operands(m, n, k)
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        calls: dict[str, Call] = {
            "numc": lambda a=a, b=b: numc.matmul(a, b, fma="amx_bf16", threads=1),
            "without": lambda a=a, b=b: numc.matmul(a, b, fma="amx_bf16", threads=1, target=_WITHOUT),
            "peer": lambda x=x, y=y: (x.bfloat16() @ y.bfloat16()).float(),
            "fp32": lambda x=x, y=y: x @ y,
        }
        yield f"`amx_bf16`, {m}x{n}x{k}", "torch bf16", calls


def _quantised(folder: Path) -> Iterator[tuple[str, str, dict[str, Call]]]:
    for name, path, feeds in models(folder):
        programs = {"numc": numc.compile(path), "without": numc.compile(path, target=_WITHOUT)}
        calls: dict[str, Call] = {who: lambda p=program, f=feeds: p(f, threads=1) for who, program in programs.items()}
        yield name, "onnxruntime", {**calls, "peer": onnxruntime_call(path, feeds)}


def _row(case: str, peer: str, calls: dict[str, Call], seconds: float) -> Row:
    timings = in_turns(calls, seconds=seconds)
    times = {f"{who}_seconds": timing.best for who, timing in timings.items()}
    slowdown = ratio(timings, "numc", "fp32") if "fp32" in calls else None
    return {"case": case, "peer": peer, **times, "ratio": ratio(timings, "numc", "peer"), "slowdown": slowdown}
