"""Operators that move, select, write and repeat elements, and products."""

from __future__ import annotations

import math

from numc.frontends.onnx.conditions.sized import Conditions, Table, alike, between, sized
from numc.frontends.onnx.rewrites.linear import letters_of
from numc.frontends.onnx.rewrites.node import Node, RefusedError

STRICT = "__strict"
"""On a Split of a model of an opset in which parts without sizes are equal, and on a Resize that was an Upsample."""


def _split(node: Node) -> Conditions:
    axis, count = node.axis(node.rank(node.input(0)), 0), len(node.proto.output)
    if node.input(1):
        yield f"count(1) == {count}", f"a split into {count} has another number of parts"
        yield "each(1) >= 0", "a part of a split has a negative size"
        yield f"each(1) <= size(0, {axis})", "a part of a split is larger than the whole"
        yield f"total(1) == size(0, {axis})", "the parts of a split do not add up to the whole"
    elif node.attribute(STRICT, 0):
        yield f"size(0, {axis}) % {count} == 0", f"a size cannot be split into {count} equal parts"


def _reshape(node: Node) -> Conditions:
    shape, rank = node.constants.get(node.input(1)), node.rank(node.input(0))
    if shape is None:
        return  # a run knows (frontends/lowering/reshapes.py)
    keeps = not node.attribute("allowzero", 0)
    sizes = [int(size) for size in shape.reshape(-1)]
    if keeps and any(size == 0 and axis >= rank for axis, size in enumerate(sizes)):
        raise RefusedError(f"its shape {sizes} keeps a size that '{node.input(0)}' does not have")
    kept = [n for n, size in enumerate(sizes) if size == 0 and keeps]
    remaining = [(n, size) for n, size in enumerate(node.shape(node.input(0))) if n not in kept]
    have = " * ".join(f"size(0, {n})" for n, size in remaining) or "1"
    want = math.prod(size for n, size in enumerate(sizes) if size != -1 and n not in kept)
    message = f"a reshape to {sizes} does not keep the number of elements"
    if -1 not in sizes:
        yield f"{have} == {want}", message
    elif want and math.prod(size for _, size in remaining if size is not None) % want:
        yield f"({have}) % {want} == 0", message


def _expand(node: Node) -> Conditions:
    if node.input(1) in node.constants:  # of others, a run knows (frontends/lowering/expansions.py)
        yield "each(1) >= 0", "a size would be negative"


def _tile(node: Node) -> Conditions:
    yield f"count(1) == {node.rank(node.input(0))}", "repeats are not as many as dimensions"
    yield "each(1) >= 0", "a number of repeats is negative"


def _one_hot(_: Node) -> Conditions:
    yield "count(1) == 1", "the depth is not one number"
    yield "count(2) == 2", "the values are not two"
    yield "at(1, 0) >= 1", "the depth is below 1"


def _range(node: Node) -> Conditions:
    yield "at(2, 0) != 0", "the step of a range is 0"
    if not node.is_float(node.input(0)):  # a difference that overflows has the other sign
        empty = "(at(1, 0) > at(0, 0)) != (at(2, 0) > 0)"
        fits = "(at(1, 0) > at(0, 0)) == (at(1, 0) - at(0, 0) > 0)"
        yield f"{empty} or {fits}", "a range is longer than numbers of its type count"


def _top_k(node: Node) -> Conditions:
    axis = node.axis(node.rank(node.input(0)), -1)
    yield "count(1) == 1", "k is not one number"
    yield "at(1, 0) >= 0", "k is negative"
    yield f"at(1, 0) <= size(0, {axis})", "k is larger than the size that is ordered"


def _pad(node: Node) -> Conditions:
    mode, rank = node.attribute("mode", "constant"), node.rank(node.input(0))
    axes = node.constants.get(node.input(3))
    if node.input(3) and axes is None:
        return  # refused by its rule
    chosen = range(rank) if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    yield f"count(1) == {2 * len(chosen)}", f"its pads are not two numbers for each of {len(chosen)} dimensions"
    for n, axis in enumerate(chosen):
        low, high = f"at(1, {n})", f"at(1, {n + len(chosen)})"
        taken = [f"max(min({pad}, 0), -281474976710656)" for pad in (low, high)]  # so that the sum does not overflow
        left = f"size(0, {axis}) + {taken[0]} + {taken[1]}"
        yield f"{left} >= 0", "negative pads take away more than there is"
        if mode == "constant":
            continue
        yield f"{left} >= 1 or ({low} == 0 and {high} == 0)", "there is nothing to pad with"
        if mode == "reflect":
            yield (
                f"max({low}, {high}) < {left} or ({low} == 0 and {high} == 0)",
                "padding that reflects is not smaller than what is padded",
            )


def _gather_elements(node: Node) -> Conditions:
    rank = node.rank(node.input(0))
    axis = node.axis(rank, 0)
    yield from sized(node, 1, *[None] * rank)
    for n in range(rank):
        if n != axis:
            yield f"size(1, {n}) <= size(0, {n})", f"indices reach beyond dimension {n} of '{node.input(0)}'"


def _scatter_elements(node: Node) -> Conditions:
    yield from _gather_elements(node)
    yield from alike(node, 2, 1)


def _scatter_nd(node: Node) -> Conditions:
    rank, indices = node.rank(node.input(0)), node.rank(node.input(1))
    depth = node.shape(node.input(1))[-1] if indices else None
    if depth is None:
        return  # refused by its rule
    batch = [f"size(1, {n})" for n in range(indices - 1)]
    yield from sized(node, 2, *batch, *(f"size(0, {n})" for n in range(depth, rank)))
    if depth == 1:  # also where nothing is written; of several numbers, where something is
        yield from between(1, "-size(0, 0)", "size(0, 0)")


def _tensor_scatter(node: Node) -> Conditions:
    rank = node.rank(node.input(0))
    axis = node.axis(rank, -2)
    yield from sized(node, 1, *(None if n == axis else f"size(0, {n})" for n in range(rank)))
    yield from sized(node, 2, "size(0, 0)")
    yield f"size(1, {axis}) <= size(0, {axis})", "an update is larger than the cache"
    yield "each(2) >= 0", "an index is out of range"
    if node.attribute("mode", "linear") == "linear":
        yield f"each(2) + size(1, {axis}) <= size(0, {axis})", "an update reaches beyond the cache"


def _determinant(node: Node) -> Conditions:
    if node.rank(node.input(0)) < 2:
        raise RefusedError(f"'{node.input(0)}' is no matrix")
    yield "size(0, -1) == size(0, -2)", "a matrix is not square"


def _einsum(node: Node) -> Conditions:
    terms = letters_of(node)
    places: dict[str, list[tuple[int, int]]] = {}
    for n, term in enumerate(terms):
        if node.rank(node.input(n)) != len(term):
            raise RefusedError(f"'{node.input(n)}' has {node.rank(node.input(n))} dimensions, and its equation "
                               f"{len(term)}")  # fmt: skip
        for axis, letter in enumerate(term):
            places.setdefault(letter, []).append((n, axis))
    for letter, ((first, axis), *others) in places.items():
        message = f"sizes do not fit: those of '{letter}' differ"
        for n, other in others:
            left, right = f"size({first}, {axis})", f"size({n}, {other})"
            # Between two operands, a size of 1 is stretched.
            yield f"{left} == {right}" if n == first else f"{left} == {right} or {left} == 1 or {right} == 1", message
        for n, term in enumerate(terms):
            mine = [other for other, axis_letter in enumerate(term) if axis_letter == letter]
            if n != first:
                for other in mine[1:]:
                    yield f"size({n}, {mine[0]}) == size({n}, {other})", message


def _squeeze(node: Node) -> Conditions:
    name = node.input(0)
    if not node.input(1):
        for axis, size in enumerate(node.shape(name)):
            if size is None:
                yield (
                    f"size(0, {axis}) != 1",
                    f"dimension {axis} of '{name}' is 1, which gives the result another rank: "
                    "compile with shapes={...} or --shape",
                )
        return
    axes = node.constants.get(node.input(1))
    for axis in [] if axes is None else axes.reshape(-1).tolist():
        yield f"size(0, {axis}) == 1", f"dimension {axis} of '{name}' is left out, and is not 1"


def _slice(_: Node) -> Conditions:
    yield "each(4) != 0", "the step of a slice is 0"


def _gather_nd(node: Node) -> Conditions:
    batch = node.attribute("batch_dims", 0)
    if batch >= min(node.rank(node.input(0)), node.rank(node.input(1))):
        return  # refused by its rule
    for n in range(batch):
        yield f"size(0, {n}) == size(1, {n})", f"sizes do not fit: dimension {n} of the inputs differs"


def _depth_to_space(node: Node) -> Conditions:
    block = _block(node)
    yield from sized(node, 0, None, None, None, None)
    yield f"size(0, 1) % {block**2} == 0", f"the square of its blocksize, {block}, does not divide the channels"


def _block(node: Node) -> int:
    block: int = node.attribute("blocksize", 1)
    if block < 1:
        raise RefusedError(f"its blocksize is {block}: it has to be 1 or more")
    return block


def _space_to_depth(node: Node) -> Conditions:
    block = _block(node)
    yield from sized(node, 0, None, None, None, None)
    for n in (2, 3):
        yield f"size(0, {n}) % {block} == 0", f"its blocksize, {block}, does not divide dimension {n}"


def _extreme(node: Node) -> Conditions:
    axis = node.axis(node.rank(node.input(0)), 0)
    yield f"size(0, {axis}) >= 1", "an extreme of nothing has no place"


def _center_crop_pad(_: Node) -> Conditions:
    yield "each(1) >= 0", "a size would be negative"


def _clip(node: Node) -> Conditions:
    for n in (1, 2):
        yield f"count({n}) == 1", f"'{node.input(n)}' is not one number"


MOVES: Table = {
    **dict.fromkeys(("ArgMax", "ArgMin"), _extreme),
    "CenterCropPad": _center_crop_pad,
    "Clip": _clip,
    "DepthToSpace": _depth_to_space,
    "Det": _determinant,
    "Einsum": _einsum,
    "Expand": _expand,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "TensorScatter": _tensor_scatter,
    "Tile": _tile,
    "TopK": _top_k,
}
