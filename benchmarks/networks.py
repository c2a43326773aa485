"""Times of whole models and of single convolution layers, against onnxruntime in fp32."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import numc
import numc.runtime
from benchmarks import graphs
from benchmarks.cases import CONVS, FEW, model_bar
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.peers import onnxruntime_call
from benchmarks.zoo import MODELS, transformer_in_torch

Row = dict[str, Any]


def models(seconds: float, quick: bool) -> list[Row]:
    """Time each model at batch 1 and 8 on one and two threads under each operator."""
    rows = []
    with graphs.folder() as folder:
        for name, make in MODELS.items():
            for batch in (1,) if quick else (1, 8):
                rows += _model(name, *make(batch, folder), batch, seconds, (1,) if quick else (1, 2))
    return rows


def _model(
    name: str, path: Path, feeds: graphs.Feeds, batch: int, seconds: float, threads: tuple[int, ...]
) -> list[Row]:
    rows = []
    programs = compiled(path, FEW)
    for count in threads:
        theirs = onnxruntime_call(path, feeds, count)
        ours: dict[str, Call] = {fma: lambda p=p: p(feeds, threads=count) for fma, p in programs.items()}  # noqa: B023
        if name == "transformer encoder":
            ours["torch.compile"] = _torch_call(feeds, count, theirs)
        for fma, call in ours.items():
            # Two processors of a virtual machine may share one core of the host for some seconds.
            length = seconds if count == 1 else 10 * seconds
            timings = in_turns({"ours": call, "onnxruntime": theirs}, seconds=length, threads=count)
            bar = model_bar(fma) if fma in FEW else None
            row = {"model": name, "batch": batch, "threads": count, "operator": fma}
            row |= {"seconds": timings["ours"].best, "onnxruntime_seconds": timings["onnxruntime"].best}
            row |= {"ratio": ratio(timings, "ours", "onnxruntime")}
            rows.append({**row, "must": bar and bar.must, "aim": bar and bar.aim})
    return rows


def compiled(path: Path, fmas: Sequence[str]) -> dict[str, numc.runtime.Program]:
    """Compile one model under several operators, one process for each CPU; write the programs beside the model."""

    def one(numbered: tuple[int, str]) -> numc.runtime.Program:
        program = path.with_suffix(f".{numbered[0]}.numc")
        command = (sys.executable, "-m", "numc", "compile", path, "--fma", numbered[1], "-o", program)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return numc.load(program)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(fmas, pool.map(one, enumerate(fmas)), strict=True))


def _torch_call(feeds: graphs.Feeds, threads: int, onnxruntime: Call) -> Call:
    """Return the transformer under torch.compile, after a check that it computes what the ONNX file does."""
    import torch

    torch.set_num_threads(threads)
    call = transformer_in_torch(feeds)
    (expected,) = onnxruntime()  # type: ignore[misc]
    if not np.allclose(np.asarray(call()), expected, atol=1e-3):
        raise AssertionError("the transformer in torch and the one in ONNX differ")
    return call


def convs(seconds: float, quick: bool) -> list[Row]:
    """Time each kind of convolution on one thread."""
    rows = []
    with graphs.folder() as folder:
        for case in CONVS[:2] if quick else CONVS:
            path, feeds = graphs.conv(case, folder)
            theirs = onnxruntime_call(path, feeds)
            for fma in FEW:
                program = numc.compile(path, fma=fma)
                calls: dict[str, Call] = {"ours": lambda p=program: p(feeds, threads=1), "onnxruntime": theirs}  # noqa: B023
                timings = in_turns(calls, seconds=seconds)
                bar = model_bar(fma)
                row = {"conv": case.name, "operator": fma, "seconds": timings["ours"].best}
                row |= {"onnxruntime_seconds": timings["onnxruntime"].best}
                row |= {"ratio": ratio(timings, "ours", "onnxruntime")}
                rows.append({**row, "must": bar and bar.must, "aim": bar and bar.aim})
    return rows
