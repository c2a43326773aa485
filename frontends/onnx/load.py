"""The import of ONNX models: the part that runs in the process of the caller.

The importer crashes on some inputs (SIGSEGV, SIGFPE), so everything that parses or converts the file runs in a worker.
Neither onnx nor torch_mlir is imported here.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from numc.frontends.imported import Imported, from_message
from numc.frontends.words import in_words
from numc.frontends.workers import process
from numc.support.arguments import Fixed
from numc.support.errors import NumcError, quoted

_TASK = "numc.frontends.onnx.worker:import_task"
# Files beside a model that may hold its weights.
_WEIGHTS = ("", ".data", ".bin", ".weight", ".weights")


def load(path: str | os.PathLike[str], *, fixed: Fixed | None = None) -> Imported:
    """Import an ONNX model.

    fixed: shapes of inputs by name, or values of what are no inputs then. The arguments of ``@main`` are the inputs of
    the model in their order, then every float32 initialiser of at least 64 elements. Raises NumcError if the file is
    not valid, if it has something that numc does not compile, or if the limits of time or memory do not suffice
    (frontends/workers/process.py).
    """
    file = Path(path)
    if not file.is_file():
        problem = "is a directory" if file.is_dir() else "no such file"
        raise NumcError(f"{file}: {problem}: want an ONNX model")
    shapes = {name: [int(size) for size in known] for name, known in (fixed or {}).items() if isinstance(known, tuple)}
    values = {name: known.tolist() for name, known in (fixed or {}).items() if not isinstance(known, tuple)}
    request = {"path": str(file), "shapes": shapes, "values": values}
    size = _size(file)
    try:
        try:
            answer, parts = process.ask(_TASK, request, size=size)
            if "failed" not in answer:
                return from_message(answer, parts)
            cause, stage = str(answer["failed"]), "convert"
            words = in_words(cause)
        except process.CrashError as death:
            cause = words = f"the importer {death} (stage: {death.stage})"
            stage = death.stage
        if stage == "convert":
            # Another worker tries every operator alone, so that the error can name the cause.
            with contextlib.suppress(process.CrashError):
                process.ask(_TASK, {**request, "diagnose": cause}, size=size, forks=True)
    except NumcError as error:
        raise NumcError(f"{file}: {error}") from None
    raise NumcError(f"{file}: {words}; the file is damaged or uses something the importer cannot handle")


def is_proto(value: object) -> bool:
    """Whether `value` is an onnx.ModelProto, which exists only where onnx is imported."""
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(value, onnx.ModelProto)


def load_proto(model: Any, *, fixed: Fixed | None = None) -> Imported:
    """Import an onnx.ModelProto with all of its weights, as onnx.load returns it.

    fixed: as for `load`. Raises NumcError as `load` does, and for a model that protobuf cannot write.
    """
    name = type(model).__name__
    for tensor in model.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            raise NumcError(
                f"{name}: weights of {quoted(tensor.name)} are in another file: read them with "
                "onnx.load_external_data_for_model, or give the name of the model's file"
            )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            data = model.SerializeToString()
        except Exception as error:  # of a class that depends on how protobuf is built
            raise NumcError(
                f"{name}: cannot be written ({error}): above 2 GiB, save it with onnx.save(..., "
                "save_as_external_data=True) and give the name of the file"
            ) from None
        path.write_bytes(data)
        try:
            return replace(load(path, fixed=fixed), sources=(name,))
        except NumcError as error:
            raise NumcError(str(error).replace(str(path), name)) from None


def _size(model: Path) -> int:
    """Return the bytes of a model and of what lies beside it and may belong to it."""
    try:
        beside = sum(f.stat().st_size for f in model.parent.iterdir() if f.is_file() and f.suffix in _WEIGHTS)
        return beside + model.stat().st_size
    except OSError:  # a folder that cannot be listed; the worker reports what it cannot read
        return 0
