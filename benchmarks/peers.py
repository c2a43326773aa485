"""Models under onnxruntime, to compare with."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

from benchmarks.graphs import Feeds
from benchmarks.measure import Call


def onnxruntime_call(model: Path, feeds: Feeds, threads: int = 1) -> Call:
    """Return a call that runs `model` in fp32 on `threads` threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)
