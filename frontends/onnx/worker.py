"""The import of one ONNX file, as the task of a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from numc.frontends.imported import ConversionError, Imported, to_message
from numc.frontends.onnx import convert, diagnose, prepare
from numc.frontends.onnx.reading import read
from numc.frontends.workers.worker import Answer, Parts, Stage


def import_task(request: dict[str, Any], _: Parts, stage: Stage) -> Answer:
    """Import a model; if torch-mlir fails, answer `failed` with the reason. Raises NumcError if the file is not valid.

    request: `path`, `shapes` and `values` of inputs, and, after a failure or a crash, `diagnose` with the reason: then
    the NumcError that is raised lists the operators that cannot be compiled, each tried in a process of its own.
    """
    stage("read")
    loaded = read.read(Path(request["path"]))
    stage("prepare")
    shapes = {name: tuple(shape) for name, shape in request["shapes"].items()}
    prepared = prepare.prepare(loaded.model, shapes, loaded.large, request.get("values", {}))
    stage("convert")
    if "diagnose" in request:
        raise diagnose.explain(prepared, request["diagnose"])
    try:
        text = convert.to_linalg(prepared.model, no_broadcast=prepared.no_broadcast)
    except ConversionError as error:
        return {"failed": error.said}, []
    stage("write")
    return to_message(
        Imported(
            mlir=text,
            inputs=tuple(prepared.inputs),
            outputs=tuple(prepared.outputs),
            weights=cast(Any, dict(enumerate(prepared.weights.items(), start=len(prepared.inputs)))),
            sources=loaded.sources,
            nodes=prepared.nodes,
        ),
        loaded.place_of,
    )
