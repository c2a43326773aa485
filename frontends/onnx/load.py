"""The import of ONNX files: the part that runs in the process of the caller.

The importer crashes on some inputs (SIGSEGV, SIGFPE), so everything that parses or converts the file runs in a process
of its own, ``python -m numc.frontends.onnx.worker``. Neither onnx nor torch_mlir is imported here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from numc.compiler.support.errors import NumcError
from numc.compiler.support.versions import own_folder
from numc.frontends.imported import Argument, Imported


def load(
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    time_limit: float = 600.0,
) -> Imported:
    """Import an ONNX model.

    shapes: shapes of inputs by name, to be fixed. time_limit: in seconds. The arguments of ``@main`` are the inputs of
    the model in their order, then every float32 initialiser of at least 64 elements. Raises NumcError if the file is
    not valid or has something that numc does not compile.
    """
    file = Path(path)
    if not file.is_file():
        found = "is a directory" if file.is_dir() else "no such file"
        raise NumcError(f"{file}: {found}; expected an ONNX model")
    fixed = {name: [int(size) for size in shape] for name, shape in (shapes or {}).items()}
    with tempfile.TemporaryDirectory(prefix="numc-onnx-") as folder:
        request = {"path": str(file), "shapes": fixed, "folder": folder}
        status = _run(request, time_limit)
        if status is None:
            stage = _stage(folder)
            raise NumcError(f"{file}: import took longer than {time_limit:g} s (stage: {stage}); raise the time limit")
        answer = _answer(folder)
        if answer is None:
            # The process crashed. A second one tries every operator alone, so that the error can name the cause.
            cause = f"the importer {_death(status)} (stage: {_stage(folder)})"
            if _stage(folder) != "read":
                _run({**request, "diagnose": cause}, time_limit)
                answer = _answer(folder)
            answer = answer or {"error": f"{cause}; the file is damaged or uses something the importer cannot handle"}
        if "error" in answer:
            raise NumcError(f"{file}: {answer['error']}")
        return _imported(answer, Path(folder))


def _run(request: Mapping[str, Any], time_limit: float) -> int | None:
    """Run the worker; return its exit status, or None if it took too long."""
    root = str(own_folder().parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "numc.frontends.onnx.worker"]
    with open(Path(request["folder"], "log"), "wb") as log:
        try:
            done = subprocess.run(
                command, input=json.dumps(request).encode(), stdout=log, stderr=log, env=env, timeout=time_limit
            )
        except subprocess.TimeoutExpired:
            return None
    return done.returncode


def _answer(folder: str) -> dict[str, Any] | None:
    file = Path(folder, "answer.json")
    if not file.exists():
        return None
    answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return answer


def _stage(folder: str) -> str:
    file = Path(folder, "stage")
    return file.read_text(encoding="utf-8") if file.exists() else "start"


def _death(status: int) -> str:
    if status < 0:
        return f"crashed with {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _imported(answer: Mapping[str, Any], folder: Path) -> Imported:
    weights: dict[int, tuple[str, npt.NDArray[np.float32]]] = {}
    data = folder / "weights"
    for weight in answer["weights"]:
        shape = tuple(weight["shape"])
        if "splat" in weight:
            bits = np.array(weight["splat"], dtype=np.uint32)
            value = np.full(shape, bits.view(np.float32), dtype=np.float32)
        else:
            count = int(np.prod(shape))
            value = np.fromfile(data, dtype=np.float32, count=count, offset=weight["offset"]).reshape(shape)
        weights[weight["position"]] = (weight["name"], value)
    return Imported(
        mlir=(folder / "main.mlir").read_text(encoding="utf-8"),
        inputs=tuple(_argument(a) for a in answer["inputs"]),
        outputs=tuple(_argument(a) for a in answer["outputs"]),
        weights=weights,
        sources=tuple(answer["sources"]),
        nodes=answer["nodes"],
    )


def _argument(fields: Mapping[str, Any]) -> Argument:
    return Argument(fields["name"], fields["dtype"], tuple(fields["shape"]), tuple(fields["symbols"]))
