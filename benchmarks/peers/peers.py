"""What numc is compared with: models under onnxruntime, and under torch.compile with inductor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import torch

from benchmarks.measure import Call
from benchmarks.models.graphs import Feeds


def onnxruntime_call(model: Path, feeds: Feeds, threads: int = 1) -> Call:
    """Return a call that runs `model` in fp32 on `threads` threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def inductor_call(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], threads: int) -> Call:
    """Return a call of the module under torch.compile: its code is made for a number of threads."""
    torch._dynamo.reset()
    torch.set_num_threads(threads)
    compiled = torch.compile(module)
    return lambda: compiled(*inputs)


def exported(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> tuple[Path, Feeds]:
    """Write the module as ONNX; returns the file and the inputs."""
    names = [f"x{n}" for n in range(len(inputs))]
    torch.onnx.export(module, inputs, path, dynamo=False, opset_version=18, input_names=names)
    return path, {name: np.ascontiguousarray(x.numpy()) for name, x in zip(names, inputs, strict=True)}
