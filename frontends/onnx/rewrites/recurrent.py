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
    sizes = [node.known_shape(name) for name in (node.input(0), node.input(5)) if name]
    if node.proto.op_type != "LSTM" and any(shape is not None and shape[-1] is None for shape in sizes):
        raise RefusedError("its features are free, which only those of LSTM may be: give shapes={...} or --shape")
    lengths = node.input(4)
    if lengths:
        _check_full(node, lengths)
    direction = node.attribute("direction", "forward")
    if direction == "forward":
        if lengths:
            node.copy().input[4] = ""
        return
    _directions(node, ["forward", "reverse"] if direction == "bidirectional" else ["reverse"])


def _check_full(node: Node, lengths: str) -> None:
    """Raise RefusedError unless all sequences have the full length."""
    shape = node.known_shape(node.input(0))
    steps = shape[1 if node.attribute("layout", 0) else 0] if shape and len(shape) > 1 else None
    known = node.constants.get(lengths)
    if known is None or steps is None or not bool((known.astype(np.int64) == steps).all()):
        full = "a constant that equals the full length of every sequence"
        raise RefusedError(f"sequence_lens is available only as {full}")


def _directions(node: Node, directions: list[str]) -> None:
    """Emit a node that goes forward for each direction: torch-mlir does not go backwards."""
    layout = node.attribute("layout", 0)
    time = 1 if layout else 0
    state = 1 if layout else 0
    results: list[list[str]] = [[] for _ in node.proto.output]
    for n, direction in enumerate(directions):
        back = direction == "reverse"
        source = _reversed(node, node.input(0), time) if back else node.input(0)
        inputs = [source, *(_part(node, node.input(k), 0, n) for k in (1, 2, 3)), ""]
        inputs += [_part(node, node.input(k), state, n) for k in (5, 6)]
        names = [name.decode() for name in node.attribute("activations", [])]
        each = len(names) // len(directions)
        outputs = [node.fresh() if name else "" for name in node.proto.output]
        copy = node.copy(direction=None, activations=names[n * each : (n + 1) * each] or None)
        copy.input[:], copy.output[:] = inputs, outputs
        if outputs[0]:
            outputs[0] = _reversed(node, outputs[0], time, node.size(node.input(0), time)) if back else outputs[0]
        for parts, value in zip(results, outputs, strict=True):
            parts.append(value)
    for n, (parts, to) in enumerate(zip(results, node.proto.output, strict=True)):
        if to:
            axis = (2 if layout else 1) if n == 0 else (1 if layout else 0)
            node.op("Concat", *parts, axis=axis, to=to)


def _part(node: Node, name: str, axis: int, n: int) -> str:
    """Emit the part of a weight or a state for a direction."""
    return node.cut(name, axis, n, n + 1) if name else ""


def _reversed(node: Node, value: str, axis: int, size: int | str | None = None) -> str:
    """Emit a value in the opposite order along an axis."""
    length = node.size(value, axis) if size is None else size
    if isinstance(length, int):
        return node.op("Gather", value, node.constant(np.arange(length)[::-1], np.int64), axis=axis)
    last = node.op("Sub", length, node.ints(1))
    return node.op("Gather", value, node.op("Sub", last, node.steps(length)), axis=axis)
