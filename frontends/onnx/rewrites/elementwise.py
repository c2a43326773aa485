"""Operators on elements."""

from __future__ import annotations

from numc.frontends.onnx.rewrites.node import Node


def sign(node: Node) -> None:
    """Sign: torch-mlir gives 0 for NaN."""
    source = node.input(0)
    if node.is_float(source):
        node.op("Where", node.op("IsNaN", source), source, node.op("Sign", source), to=node.output(0))
