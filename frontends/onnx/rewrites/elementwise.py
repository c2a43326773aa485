"""Operators on elements."""

from __future__ import annotations

import numpy as np

from numc.frontends.onnx.rewrites.node import Node, RefusedError


def sign(node: Node) -> None:
    """Sign: torch-mlir gives 0 for NaN."""
    source = node.input(0)
    if node.is_float(source):
        node.op("Where", node.op("IsNaN", source), source, node.op("Sign", source), to=node.output(0))


def dropout(node: Node) -> None:
    """Dropout: nothing is dropped outside of training, or with the ratio 0."""
    training, ratio = node.constant_input(2, "training_mode"), node.constant_input(1, "ratio")
    if training is not None and training.any() and (ratio is None or ratio.any()):
        raise RefusedError("draws random numbers in training: export the model for inference")
    node.op("Identity", node.input(0), to=node.output(0))
    if node.output(1):
        shape = node.list_of(node.sizes(node.input(0)))
        node.op("Expand", node.constant(True, np.bool_), shape, to=node.output(1))
