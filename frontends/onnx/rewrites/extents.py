"""Operators whose results have as many elements as numbers say that a run computes."""

from __future__ import annotations

import numpy as np

from numc.frontends.onnx.rewrites.node import Node

_FAR = 2**31
"""Beyond every size."""


def tile(node: Node) -> None:
    """Tile by computed repeats: torch-mlir takes each below 1 for one, and for all sizes."""
    source, repeats = node.input(0), node.input(1)
    if repeats in node.constants:
        return
    sizes = node.sizes(source)
    times = [node.cut(repeats, 0, n, n + 1) for n in range(len(sizes))]
    apart = node.reshape(source, [size for each in sizes for size in (1, each)])
    wide = node.op("Expand", apart, node.list_of([size for n, each in enumerate(sizes) for size in (times[n], each)]))
    whole = node.list_of([node.product(times[n], size) for n, size in enumerate(sizes)])
    node.op("Reshape", wide, whole, to=node.output(0), allowzero=1)


def numbers(node: Node) -> None:
    """Range that may be empty, as it is if its step leads away from its end: torch-mlir takes a negative size."""
    start, end, step = (node.input(n) for n in range(3))
    if all(name in node.constants for name in (start, end, step)):
        return
    onwards = node.op("Equal", node.op("Greater", end, start), node.op("Greater", step, node.like(0, step)))
    node.copy().input[1] = node.op("Where", onwards, end, start)


def triangle(node: Node) -> None:
    """Trilu by a diagonal far outside of the matrix: counted from there, places overflow."""
    diagonal = node.input(1)
    if not diagonal:
        return
    if diagonal in node.constants:
        if abs(int(node.constants[diagonal].item())) > _FAR:
            node.copy().input[1] = node.constant(np.clip(node.constants[diagonal], -_FAR, _FAR), np.int64)
        return
    low, high = node.constant(-_FAR, np.int64), node.constant(_FAR, np.int64)
    node.copy().input[1] = node.op("Min", node.op("Max", diagonal, low), high)
