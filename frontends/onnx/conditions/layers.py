"""Layers: recurrent ones, normalisations, losses, quantisation."""

from __future__ import annotations

from numc.frontends.onnx.conditions.sized import Conditions, Table, alike, image, sized, stretches
from numc.frontends.onnx.rewrites.node import Node, RefusedError

_GATES = {"DynamicQuantizeLSTM": 4, "GRU": 3, "LSTM": 4, "RNN": 1}


def recurrent(node: Node, *, transposed: bool = False) -> Conditions:
    """GRU, LSTM, RNN. transposed: the rows of the weights are columns."""
    hidden, gates = node.attribute("hidden_size", 0), _GATES[node.proto.op_type]
    directions = 2 if node.attribute("direction", "forward") == "bidirectional" else 1
    if hidden < 1 or node.rank(node.input(0)) != 3:
        raise RefusedError(f"its hidden_size is {hidden}, and '{node.input(0)}' has sizes "
                           f"{node.known_shape(node.input(0))}: 1 or more, and 3, are needed")  # fmt: skip
    rows: list[int | str] = [directions, gates * hidden]
    steps, batch = (1, 0) if node.attribute("layout", 0) else (0, 1)
    state: list[int | str] = [f"size(0, {batch})", directions] if steps else [directions, f"size(0, {batch})"]
    for n, columns in ((1, "size(0, 2)"), (2, f"{hidden}")):
        wanted = (directions, columns, gates * hidden) if transposed else (*rows, columns)
        yield from sized(node, n, *wanted)
    yield from sized(node, 3, directions, 2 * gates * hidden)
    yield from sized(node, 4, f"size(0, {batch})")
    yield "each(4) >= 0", "the length of a sequence is negative"
    yield f"each(4) <= size(0, {steps})", "the length of a sequence is beyond its end"
    yield from sized(node, 5, *state, hidden)
    yield from sized(node, 6, *state, hidden)
    yield from sized(node, 7, directions, 3 * hidden)


def _reverse_sequence(node: Node) -> Conditions:
    rank, batch, time = node.rank(node.input(0)), node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    if {batch, time} != {0, 1} or rank < 2:
        return
    yield from sized(node, 1, f"size(0, {batch})")
    yield "each(1) >= 0", "the length of a sequence is negative"
    yield f"each(1) <= size(0, {time})", "the length of a sequence is beyond its end"


def _non_max_suppression(node: Node) -> Conditions:
    yield from sized(node, 0, None, None, 4)
    yield from sized(node, 1, "size(0, 0)", None, "size(0, 1)")
    for n in (2, 3, 4):
        yield f"count({n}) == 1", f"'{node.input(n)}' is not one number"
    yield "at(3, 0) >= 0 and at(3, 0) <= 1", "the threshold of overlap is not between 0 and 1"


def _instance_normalization(node: Node) -> Conditions:
    image(node)
    for n in (1, 2):
        yield from sized(node, n, "size(0, 1)")


def _batch_normalization(node: Node) -> Conditions:
    if node.rank(node.input(0)) > 1:
        for n in range(1, 5):
            yield from sized(node, n, "size(0, 1)")


def _group_normalization(node: Node) -> Conditions:
    image(node)
    groups = node.attribute("num_groups", 1)
    if groups < 1:
        raise RefusedError(f"its num_groups is {groups}: it has to be 1 or more")
    yield f"size(0, 1) % {groups} == 0", f"its num_groups, {groups}, does not divide the channels"
    for n in (1, 2):
        if node.opset < _BY_CHANNEL:
            yield from sized(node, n, groups)
            continue
        yield from sized(node, n, None)
        name = node.input(n)
        fits = f"size({n}, 0) == size(0, 1) or size({n}, 0) == 1"
        yield fits, f"sizes do not fit: '{name}' has neither one number nor one for each channel"


_BY_CHANNEL = 21
"""The opset from which on scales of a GroupNormalization are those of channels, before those of groups."""


def _layer_normalization(node: Node) -> Conditions:
    rank = node.rank(node.input(0))
    for n in (1, 2):
        yield from stretches(node, n, node.axis(rank, -1))


def _loss(node: Node) -> Conditions:
    rank = node.rank(node.input(0))
    yield from sized(node, 1, *(f"size(0, {n})" for n in range(rank) if n != 1))
    yield from sized(node, 2, "size(0, 1)")
    inside = "each(1) >= 0 and each(1) < size(0, 1)"
    ignored = node.attribute("ignore_index", None)
    yield (
        inside if ignored is None else f"each(1) == {ignored} or ({inside})",
        "a class is none that there are scores of",
    )


def _quantised(node: Node) -> Conditions:
    rank, block = node.rank(node.input(0)), node.attribute("block_size", 0)
    # Quantisers write one scale as a list beside one zero point that is none, which onnxruntime takes, too.
    single = all(node.shape(name) in ([], [1]) for name in (node.input(1), node.input(2)) if name)
    if not single:
        yield from alike(node, 2, 1)
    if not node.rank(node.input(1)):
        return
    axis = node.axis(rank, 1) if rank > 1 or block else 0
    if block > 0:
        blocks = f"(size(0, {axis}) + {block - 1}) // {block}"
        yield from sized(node, 1, *(blocks if n == axis else f"size(0, {n})" for n in range(rank)))
    else:
        yield from sized(node, 1, None)
        yield f"size(1, 0) == 1 or size(1, 0) == size(0, {axis})", "the scales are not one, or one for each of an axis"


def _attention(node: Node) -> Conditions:
    """A mask is as wide as there are keys; from _PADDED on, what is missing of it hides the last ones."""
    if not node.input(3):
        return
    steps = "size(1, -2)" + (" + size(4, -2)" if node.input(4) else "")
    if node.opset < _PADDED:
        yield from sized(node, 3, *[None] * (node.rank(node.input(3)) - 1), steps)
    else:
        yield f"size(3, -1) <= {steps}", f"'{node.input(3)}' is wider than there are keys"


_PADDED = 24


def _stft(node: Node) -> Conditions:
    length = node.constant_input(3, "frame_length")
    frame = int(length.item()) if length is not None else "size(2, 0)" if node.input(2) else None
    if frame is not None:
        yield f"size(0, 1) >= {frame}", f"a frame is longer than the signal '{node.input(0)}'"


LAYERS: Table = {
    "Attention": _attention,
    "BatchNormalization": _batch_normalization,
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _quantised),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent),
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_normalization),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _loss),
    "NonMaxSuppression": _non_max_suppression,
    "ReverseSequence": _reverse_sequence,
    "STFT": _stft,
}
