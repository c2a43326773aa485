"""LSTM, GRU and RNN."""

from __future__ import annotations

import numpy as np

from numc.frontends.onnx.rewrites.node import Node, RefusedError

_ACTIVATIONS = {"Relu", "Sigmoid", "Tanh"}


def recurrent(node: Node) -> None:
    """torch-mlir ignores some inputs and attributes; lengths that are the full length of sequences can be left out."""
    if node.input(7):
        raise RefusedError("its peephole weights P are not available")
    if node.attribute("clip", None) is not None:
        raise RefusedError("its attribute clip is not available")
    names = [name.decode() for name in node.attribute("activations", [])]
    if others := sorted(set(names) - _ACTIVATIONS):
        raise RefusedError(f"the activation {others[0]} is not available, only {', '.join(sorted(_ACTIVATIONS))}")
    lengths = node.input(4)
    if not lengths:
        return
    shape = node.known_shape(node.input(0))
    steps = shape[1 if node.attribute("layout", 0) else 0] if shape and len(shape) > 1 else None
    known = node.constants.get(lengths)
    if known is None or steps is None or not bool((known.astype(np.int64) == steps).all()):
        full = "a constant that equals the full length of every sequence"
        raise RefusedError(f"sequence_lens is available only as {full}")
    node.copy().input[4] = ""
