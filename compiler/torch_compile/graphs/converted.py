"""The linalg text of the graphs that torch.compile traced: from the cache, where they were converted before.

A worker converts them, because torch-mlir takes 80 MB of a process; where everything is in the cache, none is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from numc.compiler.cache import cache
from numc.compiler.programs import apart
from numc.compiler.torch_compile.graphs.free_sizes import has_free_sizes
from numc.frontends.imported import ConversionError
from numc.frontends.pytorch.graphs.graph import Refusal, failed, values_of
from numc.frontends.pytorch.message import to_message
from numc.frontends.words import crashed
from numc.frontends.workers import process

_WORKER = "numc.frontends.pytorch.worker"


def expect(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Let the process start that converts and compiles what torch makes of a graph, unless this was done before."""
    if not apart.is_apart():
        return

    def prepare() -> str:
        process.prepare(f"{_WORKER}:convert_task")
        apart.prepare()
        return ""

    specs = [(x.dtype, tuple(x.shape)) if isinstance(x, torch.Tensor) else x for x in inputs]
    cache.text_of(f"expected {specs} {graph_module.code}", prepare)


def to_linalg(graph: fx.Graph, names: Mapping[fx.Node, str]) -> str:
    """Return a module whose ``@main`` takes the graph's placeholders; operations carry their `names` as locations.

    Raises ConversionError when torch-mlir fails, and LimitError when it does not come to an end.
    """

    def make() -> str:
        if (message := _message(graph, names)) is not None:
            return _converted(message)
        from numc.frontends.pytorch.convert import to_linalg

        return to_linalg(graph, names)

    return make() if has_free_sizes(graph) else cache.text_of(_described(graph, names), make)


def diagnose(graph: fx.Graph) -> list[tuple[fx.Node, Refusal]]:
    """Try to lower every distinct operation of a graph alone; return the operations that fail."""
    if (message := _message(graph, {})) is not None:
        answer, _ = process.ask(f"{_WORKER}:diagnose_task", {}, [message], size=len(message))
        nodes = {node.name: node for node in graph.nodes}
        return [(nodes[name], failed(nodes[name], reason)) for name, reason in answer["failed"]]
    from numc.frontends.pytorch.convert import diagnose

    return diagnose(graph.nodes)


def _message(graph: fx.Graph, names: Mapping[fx.Node, str]) -> bytes | None:
    """Return what a worker is sent to convert a graph; None if this process has to do it.

    So it is with free sizes: what torch knows about them is not in the graph alone.
    """
    return to_message(graph, names) if apart.is_apart() and not has_free_sizes(graph) else None


def _converted(message: bytes) -> str:
    try:
        answer, parts = process.ask(f"{_WORKER}:convert_task", {}, [message], size=len(message))
    except process.CrashError as death:
        raise ConversionError(crashed(str(death))) from None
    if "error" in answer:
        raise ConversionError(answer["error"], answer["said"])
    return bytes(parts[0]).decode()


def _described(graph: fx.Graph, names: Mapping[fx.Node, str]) -> str:
    """Return all that the conversion of a graph depends on."""
    lines = []
    for node in graph.nodes:
        arguments = [map_arg(each, lambda n: _Name(f"%{n.name}")) for each in (node.args, node.kwargs)]
        specs = [(v.dtype, tuple(v.shape)) if isinstance(v, torch.Tensor) else v for v in values_of(node)]
        lines.append(f"{node.op} {node.name} {node.target} {arguments} {specs} {names.get(node)!r}")
    return "\n".join(lines)


class _Name(str):
    """The name of a node, which no text among the arguments can look like."""

    __slots__ = ()

    __repr__ = str.__str__
