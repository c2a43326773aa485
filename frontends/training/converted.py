"""The linalg text of the graphs that torch.compile traced: from the cache, where they were converted before.

torch-mlir takes 80 MB of a process, and a conversion a process of its own: where everything is in the cache, neither is
needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from numc.compiler import cache
from numc.frontends.pytorch.graph import Refusal, values_of
from numc.frontends.training.free_sizes import is_free


def to_linalg(graph: fx.Graph, names: Mapping[fx.Node, str]) -> str:
    """Return a module whose ``@main`` takes the graph's placeholders; operations carry their `names` as locations.

    Raises ConversionError when torch-mlir fails.
    """

    def make() -> str:
        from numc.frontends.pytorch.convert import to_linalg

        return to_linalg(graph, names)

    # What torch knows about free sizes is not in the graph alone.
    if any(is_free(value) for node in graph.nodes for value in values_of(node)):
        return make()
    return cache.text_of(_described(graph, names), make)


def diagnose(nodes: Any) -> list[tuple[fx.Node, Refusal]]:
    """Try to lower every distinct operation alone; return the operations that fail."""
    from numc.frontends.pytorch.convert import diagnose

    return diagnose(nodes)


def _described(graph: fx.Graph, names: Mapping[fx.Node, str]) -> str:
    """Return all that the conversion of a graph depends on."""
    lines = []
    for node in graph.nodes:
        given = [map_arg(each, lambda n: _Name(f"%{n.name}")) for each in (node.args, node.kwargs)]
        found = [(v.dtype, tuple(v.shape)) if isinstance(v, torch.Tensor) else v for v in values_of(node)]
        lines.append(f"{node.op} {node.name} {node.target} {given} {found} {names.get(node)!r}")
    return "\n".join(lines)


class _Name(str):
    """The name of a node, which no text among the arguments can look like."""

    __slots__ = ()

    __repr__ = str.__str__
