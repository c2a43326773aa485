"""The process that imports one ONNX file. It reads a request from standard input and writes its answer to a folder.

The request is JSON: path, shapes, folder, and `diagnose` (the cause) if an earlier worker crashed. The answer is
``answer.json``, with either `error` or the arguments; ``main.mlir``; and ``weights`` (raw float32). The file ``stage``
says how far the worker got, in case it crashes.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

from numc.compiler.support.errors import NumcError

MEMORY = "NUMC_IMPORT_MEMORY"
# Files beside a model that may hold its weights.
_WEIGHTS = ("", ".data", ".bin", ".weight", ".weights")


def main() -> int:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    folder = Path(request["folder"])
    limit = _limit_memory(Path(request["path"]))
    try:
        answer = _work(request, folder)
    except NumcError as error:
        answer = {"error": " ".join(str(error).split())}
    except MemoryError:
        answer = {
            "error": f"importing the model takes more than {limit / 2**30:.0f} GiB of memory: "
            f"a size in it may be wrong; {MEMORY}=N allows N GiB"
        }
    # Written under another name first, so that there is no incomplete answer.
    (folder / "answer.part").write_text(json.dumps(answer), encoding="utf-8")
    os.replace(folder / "answer.part", folder / "answer.json")
    return 0


def _limit_memory(model: Path) -> int:
    """Bound the address space of this process; return the bound in bytes: a model must not take the machine's memory.

    By default 4 GiB and eight times the bytes of the file with what lies beside it; NUMC_IMPORT_MEMORY, in GiB, is
    instead of that.
    """
    if given := os.environ.get(MEMORY):
        try:
            limit = int(float(given) * 2**30)
        except ValueError:
            limit = 0
        if limit < 2**30:
            raise SystemExit(f"{MEMORY}={given}: a number of GiB is wanted, 1 or more")
    else:
        weights = sum(f.stat().st_size for f in model.parent.iterdir() if f.is_file() and f.suffix in _WEIGHTS)
        limit = 4 * 2**30 + 8 * (model.stat().st_size + weights)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return limit


def _work(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    from numc.frontends import lowering
    from numc.frontends.onnx import convert, diagnose, prepare, read

    def stage(name: str) -> None:
        (folder / "stage").write_text(name, encoding="utf-8")

    stage("read")
    model, sources = read.read(Path(request["path"]))
    stage("prepare")
    prepared = prepare.prepare(model, {name: tuple(shape) for name, shape in request["shapes"].items()})
    stage("convert")
    if "diagnose" in request:
        raise diagnose.explain(prepared, request["diagnose"])
    try:
        text = convert.to_linalg(prepared.model, no_broadcast=prepared.no_broadcast)
    except lowering.ConversionError as error:
        stage("diagnose")
        raise diagnose.explain(prepared, str(error)) from None
    stage("write")
    (folder / "main.mlir").write_text(text, encoding="utf-8")
    return {
        "inputs": [vars(argument) for argument in prepared.inputs],
        "outputs": [vars(argument) for argument in prepared.outputs],
        "weights": _write_weights(prepared.weights, len(prepared.inputs), folder / "weights"),
        "sources": sources,
        "nodes": prepared.nodes,
    }


def _write_weights(weights: dict[str, Any], first: int, file: Path) -> list[dict[str, Any]]:
    entries = []
    with open(file, "wb") as out:
        for position, (name, value) in enumerate(weights.items(), start=first):
            entry: dict[str, Any] = {"position": position, "name": name, "shape": list(value.shape)}
            if not any(value.strides):
                # The output of ConstantOfShape is one number, however many elements it has.
                entry["splat"] = int(value.reshape(-1)[:1].view(np.uint32)[0])
            else:
                entry["offset"] = out.tell()
                np.ascontiguousarray(value).tofile(out)
            entries.append(entry)
    return entries


if __name__ == "__main__":
    sys.exit(main())
