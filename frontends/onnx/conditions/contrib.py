"""Operators of the domains com.microsoft, ai.onnx.ml and ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable

from numc.frontends.onnx.conditions.layers import recurrent
from numc.frontends.onnx.conditions.sized import Conditions, Table, alike, between, sized, stretches
from numc.frontends.onnx.rewrites.node import Node

_COLUMNS = "size(0, -1)"


def _columns(*inputs: int) -> Callable[[Node], Conditions]:
    """These inputs are lists of as many numbers as the first one has columns."""

    def conditions(node: Node) -> Conditions:
        for n in inputs:
            yield from sized(node, n, _COLUMNS)

    return conditions


def _skip(*inputs: int) -> Callable[[Node], Conditions]:
    """The second input is added to the first, to all of its batch if it is for one; then those of `_columns`."""

    def conditions(node: Node) -> Conditions:
        yield from stretches(node, 1)
        for k in (1, 2):
            yield (
                f"size(1, -{k}) == size(0, -{k})",
                f"sizes do not fit: '{node.input(1)}' differs from what it is added to",
            )
        yield from _columns(*inputs)(node)

    return conditions


def _embedding(node: Node) -> Conditions:
    words, segments, mask, places = 0, 1, 7, 8
    yield from between(words, 0, "size(2, 0)")
    yield from alike(node, segments, words)
    yield from between(segments, 0, "size(4, 0)")
    if node.input(places):
        yield f"size({places}, -1) == size(0, 1)", "sizes do not fit: places are not as many as words"
        yield from between(places, 0, "size(3, 0)")
    else:
        yield "size(0, 1) <= size(3, 0)", "there are more words than positions have embeddings"
    for n in (3, 4):
        yield f"size({n}, 1) == size(2, 1)", f"sizes do not fit: dimension 1 of '{node.input(n)}' has another size"
    for n in (5, 6):
        yield from sized(node, n, "size(2, 1)")
    yield from alike(node, mask, words)


def _multi_head(node: Node) -> Conditions:
    batch, length = "size(0, 0)", "size(0, 1)"
    if not node.input(1) or not node.input(2) or node.rank(node.input(1)) != node.rank(node.input(2)):
        return  # refused by its rule
    steps = 2 if node.rank(node.input(1)) == 4 else 1
    for n in (1, 2):
        yield f"size({n}, 0) == {batch}", f"sizes do not fit: dimension 0 of '{node.input(n)}' has another size"
    yield f"size(2, {steps}) == size(1, {steps})", "sizes do not fit: keys and values differ in number"
    yield from sized(node, 6, batch, node.attribute("num_heads", 1), None, None)
    yield from sized(node, 7, batch, node.attribute("num_heads", 1), "size(6, 2)" if node.input(6) else None, None)
    total = f"size(1, {steps})" + (" + size(6, 2)" if node.input(6) else "")
    if node.input(4) and node.rank(node.input(4)) == 2:
        yield from sized(node, 4, batch, total)
    yield from _bias(node, 5, batch, length, total)


def _bias(node: Node, n: int, batch: str, length: str, total: str) -> Conditions:
    """A bias of attention is for all of a batch, or for each of it."""
    yield from sized(node, n, None, None, length, total)
    if node.input(n):
        yield f"size({n}, 0) == 1 or size({n}, 0) == {batch}", f"sizes do not fit: those of '{node.input(n)}'"


def _attention(node: Node) -> Conditions:
    batch, length = "size(0, 0)", "size(0, 1)"
    yield from sized(node, 0, None, None, "size(1, 0)")
    yield from sized(node, 2, "size(1, 1)")
    yield from sized(node, 4, 2, batch, node.attribute("num_heads", 1), None, None)
    total = length + (" + size(4, 3)" if node.input(4) else "")
    if node.input(3):
        wanted = {1: [batch], 2: [batch, total], 3: [batch, length, total]}.get(node.rank(node.input(3)))
        yield from sized(node, 3, *wanted) if wanted else ()
    yield from _bias(node, 5, batch, length, total)


def _group_query(node: Node) -> Conditions:
    batch, shared = "size(0, 0)", node.attribute("kv_num_heads", 1)
    for n in (1, 2):
        yield from sized(node, n, batch, "size(0, 1)", None)
    for n in (3, 4):
        yield from sized(node, n, batch, shared, "size(3, 2)" if node.input(3) else None, None)
    yield f"count(5) == {batch}", f"'{node.input(5)}' is not a number for each sequence"
    yield "count(6) == 1", f"'{node.input(6)}' is not one number"
    yield "each(5) >= 0", "the length of a sequence is negative"
    yield "each(5) < at(6, 0)", "the length of a sequence is beyond the whole"
    yield "each(9) >= 0", "an index is out of range"


def _rotary(node: Node) -> Conditions:
    yield from alike(node, 3, 2)
    yield "each(1) >= 0", "an index is out of range"
    if node.rank(node.input(1)) == 1:
        yield "count(1) == 1", f"'{node.input(1)}' is neither one place nor one for each element"
    else:
        yield from sized(node, 1, "size(0, 0)", "size(0, 1)" if node.rank(node.input(0)) == 3 else "size(0, 2)")


def _n_bits(node: Node) -> Conditions:
    yield f"{_COLUMNS} == {node.attribute('K', 0)}", "sizes do not fit: its columns are not K"
    yield from sized(node, 5, node.attribute("N", 0))


def _dynamic_lstm(node: Node) -> Conditions:
    yield from recurrent(node, transposed=True)


CONTRIB: Table = {
    "Attention": _attention,
    "BiasGelu": _columns(1),
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "EmbedLayerNormalization": _embedding,
    "FastGelu": _columns(1),
    "GroupQueryAttention": _group_query,
    "MatMulNBits": _n_bits,
    "MultiHeadAttention": _multi_head,
    "RotaryEmbedding": _rotary,
    "SimplifiedLayerNormalization": _columns(1),
    "SkipLayerNormalization": _skip(2, 3, 4),
    "SkipSimplifiedLayerNormalization": _skip(2, 3),
}


def _extracted(_: Node) -> Conditions:
    yield from between(1, 0, _COLUMNS)


def _by_column(*attributes: str) -> Callable[[Node], Conditions]:
    """These attributes have a number for each column, or one for all."""

    def conditions(node: Node) -> Conditions:
        for name in attributes:
            count = len(node.attribute(name, ()))
            if count > 1:
                yield f"{_COLUMNS} == {count}", f"its {name} are {count}, which are not the columns of its input"

    return conditions


LEARNED: Table = {
    "ArrayFeatureExtractor": _extracted,
    "Imputer": _by_column("imputed_value_floats", "imputed_value_int64s"),
    "Scaler": _by_column("offset", "scale"),
}


def _optimizer(kinds: int) -> Callable[[Node], Conditions]:
    """Tensors, their gradients and states, `kinds` of each, have the same sizes; the rate and the step are numbers."""

    def conditions(node: Node) -> Conditions:
        for n in (0, 1):
            yield f"count({n}) == 1", f"'{node.input(n)}' is not one number"
        count = (len(node.proto.input) - 2) // kinds
        for n in range(2 + count, 2 + kinds * count):
            yield from alike(node, n, 2 + (n - 2) % count)

    return conditions


OPTIMIZERS: Table = {"Adagrad": _optimizer(3), "Adam": _optimizer(4), "Momentum": _optimizer(3)}
