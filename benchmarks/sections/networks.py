"""Times of published networks against onnxruntime and inductor in fp32, and of single convolution layers."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import numc
import numc.runtime
from benchmarks.cases import CONVS, FEW, MODEL_OPERATORS, model_bar
from benchmarks.measure import Call, in_turns, ratio
from benchmarks.models import graphs
from benchmarks.models.architectures import NETWORKS, network
from benchmarks.peers.peers import exported, inductor_call, onnxruntime_call
from numc.runtime.library import cpu_features

Row = dict[str, Any]


def models(seconds: float, quick: bool, batch: int = 1) -> list[Row]:
    """Time each network on one and two threads under each operator."""
    warnings.simplefilter("ignore")
    rows, before = [], torch.get_num_threads()
    with torch.no_grad():
        for name in ["LSTM, 32 steps"] if quick else NETWORKS:
            rows += _model(name, batch, seconds, (1,) if quick else (1, 2))
    torch.set_num_threads(before)
    return rows


def batches(seconds: float, quick: bool) -> list[Row]:
    """Time the same at batch 8."""
    return models(seconds, quick, 8)


def narrow(seconds: float, quick: bool) -> list[Row]:
    """Time the same on a processor without AVX-512; nothing on others, where the peers cannot be kept from using it."""
    return [] if "avx512f" in cpu_features() else models(seconds, quick)


def _model(name: str, batch: int, seconds: float, threads: tuple[int, ...]) -> list[Row]:
    rows = []
    module, inputs = network(name, batch)
    with graphs.folder() as folder:
        path, feeds = exported(module, inputs, Path(folder) / "model.onnx")
        programs = _compiled(path, MODEL_OPERATORS)
        for count in threads:
            calls: dict[str, Call] = {fma: lambda p=p: p(feeds, threads=count) for fma, p in programs.items()}  # noqa: B023
            calls["onnxruntime"] = onnxruntime_call(path, feeds, count)
            calls["inductor"] = inductor_call(module, inputs, count)
            # Two processors of a virtual machine may share one core of the host for some seconds.
            timings = in_turns(calls, seconds=seconds if count == 1 else 3 * seconds, threads=count)
            theirs = {f"{peer}_seconds": timings[peer].best for peer in ("onnxruntime", "inductor")}
            for fma in programs:
                bar = model_bar(fma)
                row = {"model": name, "batch": batch, "threads": count, "operator": fma, **theirs}
                row |= {"seconds": timings[fma].best, "ratio": timings[fma].best / min(theirs.values())}
                rows.append({**row, "must": bar and bar.must, "aim": bar and bar.aim})
    return rows


def _compiled(path: Path, fmas: Sequence[str]) -> dict[str, numc.runtime.Program]:
    """Compile one model under several operators, one process for each CPU; write the programs beside the model."""

    def one(numbered: tuple[int, str]) -> numc.runtime.Program:
        program = path.with_suffix(f".{numbered[0]}.numc")
        command = (sys.executable, "-m", "numc", "compile", path, "--fma", numbered[1], "-o", program)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return numc.load(program)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(fmas, pool.map(one, enumerate(fmas)), strict=True))


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
