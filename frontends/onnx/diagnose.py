"""Diagnosis of a failed import: every distinct node is tried alone, so that one error lists all unsupported ones.

Each try runs in a process of its own with a time limit, because it may crash as the import did. Runs in the worker.
"""

from __future__ import annotations

import time
from typing import Any

import onnx

from numc.frontends.imported import ConversionError
from numc.frontends.onnx.alone import attributes_of, contradiction, contradicts, kinds_of, model_of
from numc.frontends.onnx.convert import to_linalg
from numc.frontends.onnx.prepare import Prepared
from numc.frontends.onnx.reading.read import origin, unsupported
from numc.frontends.words import CONTRADICTION, crashed, together, with_operands
from numc.frontends.workers import process
from numc.frontends.workers.worker import Answer, Parts, Stage
from numc.support.errors import NumcError

SECONDS_PER_NODE = 20.0
SECONDS = 240.0


def explain(prepared: Prepared, cause: str) -> NumcError:
    """Return the error for a model that cannot be imported: the nodes that fail alone, or otherwise the cause."""
    model = prepared.model
    version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    types = {v.name: v for v in [*model.graph.input, *model.graph.value_info, *model.graph.output]}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    verdicts: dict[bytes, str | None] = {}
    refused, unknown = [], set[str]()  # what is made of shapes that contradict each other has none that are known
    deadline = time.monotonic() + SECONDS
    for node in model.graph.node:
        if any(name in unknown or (name and name not in types and name not in constants) for name in node.input):
            unknown.update(node.output)
            continue
        alone = model_of(node, types, constants, model)
        key = alone.graph.SerializeToString(deterministic=True)
        if key not in verdicts and time.monotonic() < deadline:
            verdicts[key] = _try(alone, prepared.no_broadcast)
        reason = verdicts.get(key)
        if reason is not None:
            if reason == CONTRADICTION or contradicts(alone):
                reason = contradiction(node, types, constants)
                unknown.update(node.output)
            reason = with_operands(reason, kinds_of(node, types, constants), attributes_of(node))
            op_type = prepared.nodes.get(node.name, node.op_type).partition(" ")[0]
            reason = reason if op_type == node.op_type else f"{node.op_type}, by which it is computed: {reason}"
            refused.append((origin(node), op_type, version, reason))
    if refused:
        return unsupported(refused)
    return NumcError(together(cause))


def _try(model: onnx.ModelProto, no_broadcast: bool) -> str | None:
    """Return the reason why a model cannot be imported, or None if it can."""
    data = model.SerializeToString()
    task = "numc.frontends.onnx.diagnose:convert_task"
    try:
        answer, _ = process.ask(task, {"no_broadcast": no_broadcast}, [data], size=len(data), seconds=SECONDS_PER_NODE)
    except process.CrashError as death:
        return crashed(str(death))
    except process.LimitError as error:
        return str(error).partition(";")[0]
    reason: str | None = answer["failed"]
    return reason


def convert_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Convert a model in a worker, and answer why that fails: `failed`, or None."""
    stage("convert")
    try:
        to_linalg(onnx.ModelProto.FromString(bytes(parts[0])), no_broadcast=request["no_broadcast"])
    except ConversionError as error:
        return {"failed": str(error)}, []
    return {"failed": None}, []
