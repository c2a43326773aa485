"""Products of matrices."""

from __future__ import annotations

from numc.frontends.onnx.rewrites.node import Node


def gemm(node: Node) -> None:
    """Gemm: torch-mlir ignores alpha where C is left out, and takes no empty name for it."""
    alpha = node.attribute("alpha", 1.0)
    if node.input(2) or not node.is_float(node.input(0)) or (alpha == 1 and len(node.proto.input) == 2):
        return
    product = node.copy(alpha=None, beta=None)
    del product.input[2:]
    if alpha != 1:
        product.output[0] = node.fresh()
        node.op("Mul", product.output[0], node.like(alpha, node.input(0)), to=node.output(0))
