"""Nodes behind those whose results they read, as ONNX wants it and some tools do not leave them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import onnx


def put_in_order(graph: onnx.GraphProto) -> None:
    """Move nodes that read what a later node makes, and no others more than needed. A cycle stays as it is."""
    makers = {name: n for n, node in enumerate(graph.node) for name in node.output if name}
    needed = [{makers[name] for name in _reads(node) if name in makers} - {n} for n, node in enumerate(graph.node)]
    if all(max(before, default=-1) < n for n, before in enumerate(needed)):
        return
    readers: list[list[int]] = [[] for _ in needed]
    for n, before in enumerate(needed):
        for maker in before:
            readers[maker].append(n)
    left, order = [len(before) for before in needed], list[int]()
    ready = [n for n, count in enumerate(left) if not count]
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    if len(order) == len(needed):
        nodes = [onnx.NodeProto.FromString(graph.node[n].SerializeToString()) for n in order]
        del graph.node[:]
        graph.node.extend(nodes)


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, also those that nodes inside of it do."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            yield from (value.name for value in inner.output)
            for each in inner.node:
                yield from _reads(each)
