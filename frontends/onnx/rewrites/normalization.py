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
