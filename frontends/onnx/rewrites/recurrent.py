"""LSTM, GRU and RNN."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node, RefusedError

_ACTIVATIONS = {"Relu", "Sigmoid", "Tanh"}


def recurrent(node: Node) -> None:
    """torch-mlir ignores some inputs and attributes, lengths and directions among them."""
    if node.input(7):
        raise RefusedError("its peephole weights P are not available")
    if node.attribute("clip", None) is not None:
        raise RefusedError("its attribute clip is not available")
    node.refuse_attribute("input_forget", 0)
    names = [name.decode() for name in node.attribute("activations", [])]
    if others := sorted(set(names) - _ACTIVATIONS):
        raise RefusedError(f"the activation {others[0]} is not available, only {', '.join(sorted(_ACTIVATIONS))}")
    if _fix_sizes(node) or _with_steps_first(node):
        return
    sizes = node.known_shape(node.input(0))
    if sizes is not None and sizes[-1] is None:
        raise RefusedError("the number of features is free in its input and its weight: give shapes={...} or --shape")
    sequence_lens, direction = node.input(4), node.attribute("direction", "forward")
    lengths = "" if not sequence_lens or _are_full(node, sequence_lens) else node.cast(sequence_lens, TensorProto.INT64)
    if lengths and node.output(2):
        raise RefusedError("its result Y_c is not available with sequence_lens of other than the full length")
    if direction == "forward" and not lengths:
        if sequence_lens:
            node.copy().input[4] = ""
        return
    _directions(node, ["forward", "reverse"] if direction == "bidirectional" else [direction], lengths)


_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def _fix_sizes(node: Node) -> bool:
    """Fix free sizes that follow from attributes and from other inputs, as is checked; return whether there are any."""
    hidden, gates = node.attribute("hidden_size", 0), _GATES[node.proto.op_type]
    directions = 2 if node.attribute("direction", "forward") == "bidirectional" else 1
    state = (0, directions, hidden) if node.attribute("layout", 0) else (directions, 0, hidden)
    shapes = [node.known_shape(node.input(n)) for n in range(2)]
    features = next((shape[-1] for shape in shapes if shape and shape[-1]), None) or 0
    wanted = {
        0: (0, 0, features),
        1: (directions, gates * hidden, features),
        2: (directions, gates * hidden, hidden),
        3: (directions, 2 * gates * hidden),
        5: state,
        6: state,
    }
    changed = {}
    for n, sizes in wanted.items():
        shape = node.known_shape(node.input(n)) if node.input(n) else None
        if shape is not None and any(have is None and size for have, size in zip(shape, sizes, strict=True)):
            changed[n] = node.op("Reshape", node.input(n), node.ints(*sizes))  # 0 keeps a size
    if changed:
        copy, node.again = node.copy(), True
        for n, name in changed.items():
            copy.input[n] = name
    return bool(changed)


def _with_steps_first(node: Node) -> bool:
    """Put the steps of a GRU of free sizes before the batch: torch-mlir does it with fixed ones only."""
    shape = node.known_shape(node.input(0))
    if node.proto.op_type != "GRU" or not node.attribute("layout", 0) or shape is None or None not in shape:
        return False
    source = node.transpose(node.input(0), 1, 0, 2)
    state = node.transpose(node.input(5), 1, 0, 2) if node.input(5) else ""
    copy, node.again = node.copy(layout=None), True
    copy.input[0] = source
    if state:
        copy.input[5] = state
    for n, order in enumerate(((2, 0, 1, 3), (1, 0, 2))):
        if node.output(n):
            copy.output[n] = node.fresh()
            node.transpose(copy.output[n], *order, to=node.output(n))
    return True


def _are_full(node: Node, lengths: str) -> bool:
    """Whether all sequences are known to have the full length."""
    shape = node.known_shape(node.input(0))
    steps = shape[1 if node.attribute("layout", 0) else 0] if shape and len(shape) > 1 else None
    known = node.constants.get(lengths)
    return known is not None and steps is not None and bool((known.astype(np.int64) == steps).all())


def _directions(node: Node, directions: list[str], lengths: str) -> None:
    """Emit a node that goes forward over all steps for each direction: torch-mlir does not do anything else.

    lengths: of the sequences; "" if all have the full length.
    """
    layout = node.attribute("layout", 0)
    time = 1 if layout else 0
    state = 1 if layout else 0
    results: list[list[str]] = [[] for _ in node.proto.output]
    for n, direction in enumerate(directions):
        back = direction == "reverse"
        source = _reversed(node, node.input(0), time, lengths) if back else node.input(0)
        inputs = [source, *(_part(node, node.input(k), 0, n) for k in (1, 2, 3)), ""]
        inputs += [_part(node, node.input(k), state, n) for k in (5, 6)]
        names = [name.decode() for name in node.attribute("activations", [])]
        each = len(names) // len(directions)
        outputs = [node.fresh() if name else "" for name in node.proto.output]
        outputs[0] = outputs[0] or (node.fresh() if lengths else "")
        copy = node.copy(direction=None, activations=names[n * each : (n + 1) * each] or None)
        copy.input[:], copy.output[:] = inputs, outputs
        if lengths:
            outputs = [*_cut_off(node, outputs[0], lengths, back=back), ""][: len(outputs)]
        elif outputs[0] and back:
            outputs[0] = _reversed(node, outputs[0], time, "", node.size(node.input(0), time))
        for parts, value in zip(results, outputs, strict=True):
            parts.append(value)
    for n, (parts, to) in enumerate(zip(results, node.proto.output, strict=True)):
        if to:
            axis = (2 if layout else 1) if n == 0 else (1 if layout else 0)
            node.op("Concat", *parts, axis=axis, to=to)


def _part(node: Node, name: str, axis: int, n: int) -> str:
    """Emit the part of a weight or a state for a direction."""
    return node.cut(name, axis, n, n + 1) if name else ""


def _cut_off(node: Node, steps: str, lengths: str, *, back: bool) -> list[str]:
    """Emit Y and Y_h of sequences of some lengths from those of all steps: 0 behind the end, and the last state."""
    op, layout = node.op, node.attribute("layout", 0)
    time, direction = (1, 2) if layout else (0, 1)
    number = node.reshape(node.steps(node.size(node.input(0), time)), [1, -1, 1] if layout else [-1, 1, 1])
    count = node.reshape(lengths, [-1, 1, 1] if layout else [1, -1, 1])
    value = op("Squeeze", steps, node.ints(direction))
    kept = op("Where", op("Less", number, count), value, node.like(0, node.input(0)))
    last = op("Max", op("Sub", count, node.ints(1)), node.ints(0))
    index = op("Expand", last, node.list_of([1, 1, node.size(node.input(2), 2)]))
    state = op("GatherElements", kept, index, axis=time)
    kept = _reversed(node, kept, time, lengths) if back else kept
    return [op("Unsqueeze", kept, node.ints(direction)), state]


def _reversed(node: Node, value: str, axis: int, lengths: str, size: int | str | None = None) -> str:
    """Emit a value in the opposite order along an axis, up to the lengths if there are any."""
    if lengths:
        return node.op("ReverseSequence", value, lengths, time_axis=axis, batch_axis=1 - axis)
    length = node.size(value, axis) if size is None else size
    if isinstance(length, int):
        return node.op("Gather", value, node.constant(np.arange(length)[::-1], np.int64), axis=axis)
    last = node.op("Sub", length, node.ints(1))
    return node.op("Gather", value, node.op("Sub", last, node.steps(length)), axis=axis)
