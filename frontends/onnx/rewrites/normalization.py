"""Normalisations."""

from __future__ import annotations

import numpy as np

from numc.frontends.onnx.rewrites.node import Node


def instance_normalization(node: Node) -> None:
    """InstanceNormalization: torch-mlir divides by the size of another dimension where sizes are free."""
    source, scale, bias = node.proto.input
    shape = node.known_shape(source)
    if shape is None or None not in shape:
        return
    axes = node.ints(*range(2, len(shape)))
    epsilon = node.constant(node.attribute("epsilon", 1e-5), np.float32)
    wide = node.ints(-1, *[1] * (len(shape) - 2))
    difference = node.op("Sub", source, node.op("ReduceMean", source, axes))
    variance = node.op("ReduceMean", node.op("Mul", difference, difference), axes)
    normal = node.op("Div", difference, node.op("Sqrt", node.op("Add", variance, epsilon)))
    scaled = node.op("Mul", normal, node.op("Reshape", scale, wide))
    node.op("Add", scaled, node.op("Reshape", bias, wide), to=node.output(0))


def lp_normalization(node: Node) -> None:
    """LpNormalization: what has the norm 0 stays 0."""
    source = node.input(0)
    axes = node.ints(node.axis(node.rank(source), -1))
    norm = node.op("ReduceL1" if node.attribute("p", 2) == 1 else "ReduceL2", source, axes)
    zero = node.like(0, source)
    node.op("Where", node.op("Equal", norm, zero), zero, node.op("Div", source, norm), to=node.output(0))
