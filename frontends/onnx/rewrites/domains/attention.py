"""Attention of the domain com.microsoft: several heads, shared heads of keys and values, caches, rotations.

Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node, RefusedError

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    """Sizes of an attention.

    shared: heads of keys and values. groups: heads of queries for each of them. length: of the queries. steps: of the
    keys. depth, width: of a head of keys, and of values.
    """

    batch: int | str
    shared: int
    groups: int
    length: int | str
    steps: int | str
    depth: int
    width: int


def _heads(node: Node, value: str, sizes: _Sizes, length: int | str, count: int, size: int) -> str:
    """Emit [batch, length, count * size] as [batch, count, length, size]."""
    return node.transpose(node.reshape(value, [sizes.batch, length, count, size]), 0, 2, 1, 3)


def _attend(node: Node, query: str, key: str, value: str, sizes: _Sizes, masks: list[str], to: str) -> None:
    """Emit the attention of heads as [batch, length, heads * width].

    query, key, value: [batch, heads, length or steps, depth or width]. masks: what is added to the products, of a shape
    that goes with [batch, shared, groups, length, steps].
    """
    op, s = node.op, sizes
    rows = node.product(s.groups, s.length)
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(s.depth)
    scaled = op("Mul", query, node.constant(scale, np.float32))
    flat = node.reshape(scaled, [s.batch, s.shared, rows, s.depth])
    product = op("MatMul", flat, node.transpose(key, 0, 1, 3, 2))
    product = node.reshape(product, [s.batch, s.shared, s.groups, s.length, s.steps])
    if softcap := node.attribute("softcap", 0.0):
        cap = node.constant(softcap, np.float32)
        product = op("Mul", op("Tanh", op("Div", product, cap)), cap)
    for mask in masks:
        product = op("Add", product, mask)
    weights = node.reshape(op("Softmax", product, axis=-1), [s.batch, s.shared, rows, s.steps])
    result = node.reshape(op("MatMul", weights, value), [s.batch, s.shared * s.groups, s.length, s.width])
    joined = node.transpose(result, 0, 2, 1, 3)
    node.reshape(joined, [s.batch, s.length, s.shared * s.groups * s.width], to=to)


def _masked(node: Node, visible: str, otherwise: float) -> str:
    """Emit what is added to products: nothing where they are visible."""
    return node.op("Where", visible, node.constant(0, np.float32), node.constant(otherwise, np.float32))


def _causal(node: Node, length: int | str, steps: int | str) -> str:
    """Emit which keys the queries see, [length, steps]: the last query sees all of them."""
    before = node.op("Sub", node.list_of([steps]), node.list_of([length]))
    places = node.reshape(node.op("Add", node.steps(length), before), [-1, 1])
    return node.op("LessOrEqual", node.steps(steps), places)


def _fixed(node: Node, name: str, axis: int) -> int:
    size = node.shape(name)[axis]
    if size is None:
        raise RefusedError(f"'{name}' has no fixed size in dimension {axis}, from which the size of heads follows")
    return size


def _sum(node: Node, one: int | str, two: int | str) -> int | str:
    if isinstance(one, int) and isinstance(two, int):
        return one + two
    return node.op("Add", node.list_of([one]), node.list_of([two]))


def _bias_mask(node: Node, name: str, heads: int) -> str:
    """Emit an attention bias, [batch or 1, heads or 1, length, steps], with heads as groups of one."""
    if node.shape(name)[1] not in (1, heads):
        raise RefusedError(f"its attention bias '{name}' is for another number of heads than {heads}")
    return node.op("Unsqueeze", name, node.ints(2))


def multi_head_attention(node: Node) -> None:
    """MultiHeadAttention of queries, keys and values of the rank 3, or of keys and values that are heads already."""
    query, key, value, bias, padding, extra, past_key, past_value = (node.input(n) for n in range(8))
    count = node.attribute("num_heads", 0)
    if not key or not value or node.rank(query) != 3 or count < 1:
        raise RefusedError("packed queries, keys and values are not available: query, key and value are wanted")
    if any(map(node.input, (8, 9))) or node.output(3):
        raise RefusedError("past_sequence_length, cache_indirection and qk are not available")
    as_heads = node.rank(key) == 4
    length, new = node.size(query, 1), node.size(key, 2 if as_heads else 1)
    depth = _fixed(node, query, 2) // count
    width = _fixed(node, value, 3) if as_heads else _fixed(node, value, 2) // count
    old = node.size(past_key, 2) if past_key else 0
    sizes = _Sizes(
        batch=node.size(query, 0),
        shared=count,
        groups=1,
        length=length,
        steps=_sum(node, old, new),
        depth=depth,
        width=width,
    )
    if bias:
        ends = np.cumsum([0, count * depth, count * depth, count * width])
        parts = [node.cut(bias, 0, int(ends[n]), int(ends[n + 1])) for n in range(3)]
        query = node.op("Add", query, parts[0])
        if not as_heads:
            key, value = node.op("Add", key, parts[1]), node.op("Add", value, parts[2])
    query = _heads(node, query, sizes, length=length, count=count, size=depth)
    if not as_heads:
        key = _heads(node, key, sizes, length=new, count=count, size=depth)
        value = _heads(node, value, sizes, length=new, count=count, size=width)
    key, value = _with_past(node, past_key, key, 1), _with_past(node, past_value, value, 2)
    masks = [_bias_mask(node, extra, count)] if extra else []
    if node.attribute("unidirectional", 0):
        masks.append(_masked(node, _causal(node, length, sizes.steps), _LOWEST))
    if padding:
        if node.rank(padding) != 2:
            raise RefusedError("its key_padding_mask is available as [batch, length of the keys] only")
        masks.append(_padding(node, padding, node.attribute("mask_filter_value", -10000.0)))
    _attend(node, query, key, value=value, sizes=sizes, masks=masks, to=node.output(0))


def _padding(node: Node, mask: str, filtered: float) -> str:
    seen = node.op("Unsqueeze", node.cast(mask, TensorProto.BOOL), node.ints(1, 2, 3))
    return _masked(node, seen, filtered)


def _with_past(node: Node, past: str, now: str, output: int) -> str:
    """Emit the heads of a cache and those behind them, which are an output of the node."""
    to = node.output(output)
    if past:
        return node.op("Concat", past, now, axis=2, to=to)
    return node.op("Identity", now, to=to) if to else now


def attention(node: Node) -> None:
    """Attention of one input, whose queries, keys and values are products with a matrix."""
    source, weight, bias, mask, past, extra = (node.input(n) for n in range(6))
    if node.input(6):
        raise RefusedError("past_sequence_length is not available")
    product = node.op("MatMul", source, weight)
    attention_of(node, node.op("Add", product, bias) if bias else product, mask, past, extra)


def attention_of(node: Node, product: str, mask: str, past: str, extra: str = "") -> None:
    """Emit the attention of queries, keys and values that are side by side in the product of two inputs."""
    source, count = node.input(0), node.attribute("num_heads", 0)
    if node.attribute("do_rotary", 0) or count < 1:
        raise RefusedError("do_rotary is not available, and num_heads is 1 or more")
    columns = _fixed(node, node.input(1), 1)
    parts = list(node.attribute("qkv_hidden_sizes", [columns // 3] * 3))
    length, batch = node.size(source, 1), node.size(source, 0)
    old = node.size(past, 3) if past else 0
    depth, width = parts[0] // count, parts[2] // count
    sizes = _Sizes(
        batch=batch, shared=count, groups=1, length=length, steps=_sum(node, old, length), depth=depth, width=width
    )
    ends = [0, parts[0], parts[0] + parts[1], sum(parts)]
    query, key, value = (
        _heads(
            node, node.cut(product, 2, ends[n], ends[n + 1]), sizes, length=length, count=count, size=parts[n] // count
        )
        for n in range(3)
    )
    if past:
        before = [node.op("Gather", past, node.constant(n, np.int64), axis=0) for n in range(2)]
        key = node.op("Concat", before[0], key, axis=2)
        value = node.op("Concat", before[1], value, axis=2)
    if node.output(1):
        first = node.ints(0)
        node.op("Concat", node.op("Unsqueeze", key, first), node.op("Unsqueeze", value, first), axis=0,
                to=node.output(1))  # fmt: skip
    masks = [_bias_mask(node, extra, count)] if extra else []
    if node.attribute("unidirectional", 0):
        masks.append(_masked(node, _causal(node, length, sizes.steps), _LOWEST))
    if mask:
        masks.append(_any_mask(node, mask, sizes))
    _attend(node, query, key, value=value, sizes=sizes, masks=masks, to=node.output(0))


def _any_mask(node: Node, mask: str, sizes: _Sizes) -> str:
    """Emit what is added to products for a mask, or for the numbers of keys that are no padding."""
    filtered = node.attribute("mask_filter_value", -10000.0)
    rank = node.rank(mask)
    if rank == 2:
        return _padding(node, mask, filtered)
    if rank == 3:
        return _masked(node, node.op("Unsqueeze", node.cast(mask, TensorProto.BOOL), node.ints(1, 2)), filtered)
    if rank == 1 and node.shape(mask)[0] in (None, sizes.batch):
        ends = node.reshape(node.cast(mask, TensorProto.INT64), [-1, 1, 1, 1, 1])
        return _masked(node, node.op("Less", node.steps(sizes.steps), ends), filtered)
    raise RefusedError("its mask_index is available as [batch], [batch, keys] and [batch, length, keys] only")


def _rotated(node: Node, part: str, cosine: str, sine: str, size: int, *, interleaved: bool) -> str:
    """Emit heads of which pairs of elements are rotated, [batch, heads, length, size].

    cosine, sine: [batch or 1, 1, length, size / 2].
    """
    op, half = node.op, size // 2
    if interleaved:
        first, second = (op("Slice", part, node.ints(n), node.ints(size), node.ints(3), node.ints(2)) for n in (0, 1))
    else:
        first, second = node.cut(part, 3, 0, half), node.cut(part, 3, half, size)
    real = op("Sub", op("Mul", first, cosine), op("Mul", second, sine))
    imaginary = op("Add", op("Mul", first, sine), op("Mul", second, cosine))
    if interleaved:
        last = node.ints(-1)
        pairs = op("Concat", op("Unsqueeze", real, last), op("Unsqueeze", imaginary, last), axis=-1)
        return op("Reshape", pairs, node.ints(0, 0, 0, size))
    return op("Concat", real, imaginary, axis=3)


def _turn(node: Node, value: str, places: str, tables: tuple[str, str], depth: int, *, interleaved: bool) -> str:
    """Emit heads that are rotated by the rows of tables for their places, [batch or 1, length]."""
    size = 2 * _fixed(node, tables[0], 1)
    if size > depth:
        raise RefusedError(f"its tables are for {size} elements, and a head has {depth}")
    rows = [node.op("Unsqueeze", node.op("Gather", table, places, axis=0), node.ints(1)) for table in tables]
    if size == depth:
        return _rotated(node, value, rows[0], rows[1], size, interleaved=interleaved)
    rest = node.cut(value, 3, size, depth)
    turned = _rotated(node, node.cut(value, 3, 0, size), rows[0], rows[1], size, interleaved=interleaved)
    return node.op("Concat", turned, rest, axis=3)


def rotary_embedding(node: Node) -> None:
    """RotaryEmbedding of [batch, length, heads * depth] or [batch, heads, length, depth]."""
    source, places, cosine, sine = (node.input(n) for n in range(4))
    size = 2 * _fixed(node, cosine, 1)
    rotary_size = node.attribute("rotary_embedding_dim", 0)
    flat = node.rank(source) == 3
    count = node.attribute("num_heads", 0)
    if (
        node.attribute("scale", 1.0) != 1
        or node.attribute("is_packed_batching", 0)
        or (rotary_size and (rotary_size != size))
    ):
        raise RefusedError("scale, is_packed_batching and tables of another size are not available")
    if flat:
        columns = _fixed(node, source, 2)
        if rotary_size and not count:
            raise RefusedError("num_heads is missing")
        depth = columns // count if count else size
        shape: list[int | str] = [node.size(source, 0), node.size(source, 1), columns // depth, depth]
        value = node.transpose(node.reshape(source, shape), 0, 2, 1, 3)
        length = node.size(source, 1)
    else:
        value, depth, length = source, _fixed(node, source, 3), node.size(source, 2)
    if node.rank(places) == 1:  # the place of the first element
        places = node.op("Unsqueeze", node.op("Add", node.steps(length), places), node.ints(0))
    interleaved = bool(node.attribute("interleaved", 0))
    turned = _turn(node, value, places, (cosine, sine), depth, interleaved=interleaved)
    if flat:
        node.reshape(node.transpose(turned, 0, 2, 1, 3), [*shape[:2], columns], to=node.output(0))
    else:
        node.op("Identity", turned, to=node.output(0))


def group_query_attention(node: Node) -> None:
    """GroupQueryAttention: new keys and values are written into a cache, at places of each sequence's own."""
    query, key, value, past_key, past_value, lengths, total, cosine, sine, position_ids, extra = (
        node.input(n) for n in range(11)
    )
    count, shared = node.attribute("num_heads", 0), node.attribute("kv_num_heads", 0)
    if count < 1 or shared < 1 or count % shared or node.input(11) or node.attribute("smooth_softmax", 0) > 0:
        raise RefusedError(
            f"num_heads={count} has to be a multiple of kv_num_heads={shared}, without head_sink and smooth_softmax"
        )
    if node.output(3) or any(node.attribute(name, "NONE") != "NONE" for name in ("k_quant_type", "v_quant_type")):
        raise RefusedError("output_qk and quantised caches are not available")
    batch, length = node.size(query, 0), node.size(query, 1)
    columns = _fixed(node, query, 2)
    depth = columns // count if key else columns // (count + 2 * shared)
    if not key:  # all three in one
        ends = np.cumsum([0, count * depth, shared * depth, shared * depth])
        query, key, value = (node.cut(query, 2, int(ends[n]), int(ends[n + 1])) for n in range(3))
    op = node.op
    whole = node.reshape(node.cast(total, TensorProto.INT64), [1])
    used = node.reshape(op("Add", node.cast(lengths, TensorProto.INT64), node.ints(1)), [-1, 1])  # [batch, 1]
    size = node.list_of([length])
    # A prompt begins at 0, whatever its padding.
    start = op("Where", op("Equal", whole, size), node.ints(0), op("Sub", used, size))
    places = op("Add", start, node.steps(length))  # [batch, length]
    old = node.size(past_key, 2) if past_key else 0
    steps: int | str = length if old == 0 else op("Max", node.list_of([old]), whole)
    sizes = _Sizes(
        batch=batch, shared=shared, groups=count // shared, length=length, steps=steps, depth=depth, width=depth
    )
    query = _heads(node, query, sizes, length=length, count=count, size=depth)
    key, value = (_heads(node, tensor, sizes, length=length, count=shared, size=depth) for tensor in (key, value))
    if node.attribute("do_rotary", 0):
        rows = position_ids or places
        turn = bool(node.attribute("rotary_interleaved", 0))
        query, key = (_turn(node, tensor, rows, (cosine, sine), depth, interleaved=turn) for tensor in (query, key))
    index = op("Expand", node.reshape(places, [-1, 1, length, 1]), node.list_of([batch, shared, length, depth]))
    caches = []
    for past, now, output in ((past_key, key, 1), (past_value, value, 2)):
        if old == 0:
            caches.append(_with_past(node, "", now, output))
            continue
        longer = node.cut(op("Concat", past, now, axis=2), 2, 0, steps)  # a cache may have the room already
        caches.append(op("ScatterElements", longer, index, now, axis=2, to=node.output(output)))
    seen = op("LessOrEqual", node.steps(steps), node.reshape(places, [-1, length, 1]))
    if (window := node.attribute("local_window_size", -1)) > 0:
        oldest = op("Sub", node.reshape(places, [-1, length, 1]), node.ints(window))
        seen = op("And", seen, op("Greater", node.steps(steps), oldest))
    masks = [_masked(node, op("Unsqueeze", seen, node.ints(1, 2)), _LOWEST)]
    if extra:
        wide = node.reshape(extra, [node.size(extra, 0), 1, 1, length, steps])
        if node.shape(extra)[1] != 1:
            wide = node.reshape(extra, [node.size(extra, 0), shared, count // shared, length, steps])
        masks.append(wide)
    _attend(node, query, caches[0], value=caches[1], sizes=sizes, masks=masks, to=node.output(0))
