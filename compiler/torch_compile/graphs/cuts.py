"""Where a backward graph with many kept tensors is cut: what one part has read is freed before the next one runs."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import fx

from numc.compiler.torch_compile.graphs.free_sizes import has_free_sizes
from numc.frontends.pytorch.graphs.graph import values_of

SWITCH = "cut-backward"
#: More parts free little more.
PARTS = 4
#: Fewer bytes of kept tensors are not worth a part, which takes time to compile and to load.
LEAST_BYTES = 10 * 2**20
# How far a cut may be from its place, in parts: the more, the fewer bytes cross it.
_REACH = 1 / 3


def cuts(graph: fx.Graph) -> set[fx.Node]:
    """Return the operations of a backward graph with which parts begin, in each of which as many bytes are read last.

    At a cut few bytes cross: of what is computed before and read after it, and of kept tensors that both sides read,
    for those cannot be kept in the format of one reader.
    """
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    if has_free_sizes(graph):
        return set()
    order = {node: number for number, node in enumerate(nodes)}
    freed, crossing = [0] * len(nodes), [0] * len(nodes)
    for node in graph.nodes:
        readers = sorted(order[user] for user in node.users if user in order)
        is_kept = node.op == "placeholder" and not node.name.startswith(("primals", "tangents"))
        if not readers or not (is_kept or node in order):
            continue
        size = sum(value.nbytes for value in values_of(node) if isinstance(value, torch.Tensor))
        crossing[order.get(node, readers[0])] += size
        crossing[readers[-1]] -= size
        if is_kept:
            freed[readers[-1]] += size
    freed, crossing = list(accumulate(freed)), list(accumulate(crossing))
    parts = min(PARTS, freed[-1] // LEAST_BYTES) if freed else 0
    begins = set()
    for number in range(1, parts):
        part = freed[-1] / parts
        away = [abs(done - number * part) for done in freed[:-1]]
        near = [place for place, distance in enumerate(away) if distance <= _REACH * part]
        if near:
            begins.add(nodes[1 + min(near, key=lambda place: (crossing[place], away[place]))])
    return begins
