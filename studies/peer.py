"""The check of fp32 against onnxruntime, where that is installed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.studies.metrics import SquaredError
from numc.studies.results import Agreement
from numc.support.arguments import Fixed

Array = npt.NDArray[Any]


class Peer:
    """A session of onnxruntime with the same model.

    fixed: has the values of inputs that numc's programs do not have. note: the reason why onnxruntime does not run the
    model, or "".
    """

    def __init__(self, path: str, threads: int | None, fixed: Fixed) -> None:
        import onnxruntime

        self._version = str(onnxruntime.__version__)
        self._error, self._largest, self.note = SquaredError(), 0.0, ""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are in the note
        options.intra_op_num_threads = threads or 0
        # Products of 8-bit integers are not summed in 16 bits, which saturate, where there is no VNNI.
        options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has exception classes of its own
            self._give_up(error)
            return
        self._fixed: dict[str, Array] = {}
        for model_input in self._session.get_inputs():
            value = fixed.get(model_input.name)
            if isinstance(value, np.ndarray):
                dtype = model_input.type.removeprefix("tensor(").removesuffix(")")
                value = value.astype({"float": "float32", "double": "float64"}.get(dtype, dtype))
                self._fixed[model_input.name] = (
                    value.reshape([1] * len(model_input.shape)) if value.size == 1 else value
                )

    @classmethod
    def find(cls, model: object, sources: Sequence[str], threads: int | None, fixed: Fixed) -> Peer | None:
        """Return a peer for an ONNX file; None for other models, and if onnxruntime is not installed."""
        path = os.fspath(model) if isinstance(model, (str, os.PathLike)) else (sources or ("",))[0]
        if Path(path).suffix != ".onnx" or find_spec("onnxruntime") is None:
            return None
        return cls(path, threads, fixed)

    def _give_up(self, error: Exception) -> None:
        self.note = f"onnxruntime cannot run the model: {(str(error).splitlines() or [type(error).__name__])[0]}"

    def add(self, inputs: Mapping[str, Array], output: str, values: Array) -> None:
        """Run a batch and compare it with `values`, what numc computes in fp32."""
        if self.note:
            return
        try:
            (peer_output,) = self._session.run([output], {**inputs, **self._fixed})
        except Exception as error:
            self._give_up(error)
            return
        self._error.add(values, peer_output)
        with np.errstate(all="ignore"):
            apart = np.abs(values.astype(np.float64) - peer_output)
        self._largest = max(self._largest, float(np.nanmax(apart, initial=0.0)))

    def agreement(self) -> Agreement:
        """Return the agreement over all batches so far."""
        return Agreement(self._version, self._error.relative, self._largest, self.note)
