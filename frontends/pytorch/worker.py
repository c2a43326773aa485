"""Workers' tasks for graphs of torch.compile: in the process that trains, MLIR would take memory."""

from __future__ import annotations

from typing import Any

from numc.frontends.imported import ConversionError
from numc.frontends.pytorch import convert
from numc.frontends.pytorch.message import from_message
from numc.frontends.workers.worker import Answer, Parts, Stage


def convert_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Convert a graph to linalg text, or answer why torch-mlir cannot."""
    try:
        return {}, [convert.to_linalg(*from_message(parts[0])).encode()]
    except ConversionError as error:
        return {"error": str(error), "said": error.said}, []


def diagnose_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Answer which operations of a graph cannot be converted alone, by name, and why."""
    graph, _ = from_message(parts[0])
    return {"failed": [(node.name, why.reason) for node, why in convert.diagnose(graph.nodes)]}, []
