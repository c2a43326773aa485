"""Scatters, and sums and products along an axis."""

from __future__ import annotations

from numc.frontends.onnx.rewrites.node import Node, RefusedError

MAX_STEPS = 256
"""The largest number of elements along an axis that are treated one after the other."""


def scatter_elements(node: Node) -> None:
    """ScatterElements that keeps the largest or the smallest element: torch-mlir has none."""
    reduction = node.attribute("reduction", "none")
    if reduction not in ("max", "min"):
        return
    value, indices, updates = (node.input(n) for n in range(3))
    axis = node.axis(node.rank(value), 0)
    for step in range(_steps(node, indices, axis)):
        # No two elements of such a slice have the same place.
        where, new = (node.cut(name, axis, step, step + 1) for name in (indices, updates))
        old = node.op("GatherElements", value, where, axis=axis)
        kept = node.op("Max" if reduction == "max" else "Min", old, new)
        value = node.op("ScatterElements", value, where, kept, axis=axis)
    node.op("Identity", value, to=node.output(0))


def _steps(node: Node, name: str, axis: int) -> int:
    size = node.shape(name)[axis]
    if size is None or size > MAX_STEPS:
        raise RefusedError(f"it is available for up to {MAX_STEPS} elements along its axis, whose number is fixed")
    return size


def tensor_scatter(node: Node) -> None:
    """TensorScatter: the places of the elements of a cache that are written are computed."""
    past, update, start = (node.input(n) for n in range(3))
    rank = node.rank(past)
    axis = node.axis(rank, -2)
    steps = node.steps(node.size(update, axis))
    places = node.reshape(steps, [-1 if d == axis else 1 for d in range(rank)])
    if start:
        places = node.op("Add", places, node.reshape(start, [-1, *[1] * (rank - 1)]))
    if node.attribute("mode", "linear") == "circular":
        places = node.op("Mod", places, node.list_of([node.size(past, axis)]))
    wide = node.op("Expand", places, node.list_of(node.sizes(update)))
    node.op("ScatterElements", past, wide, update, axis=axis, to=node.output(0))


def cumulative_product(node: Node) -> None:
    """CumProd, one element after the other."""
    source, given = node.input(0), node.constant_input(1, "axis")
    rank = node.rank(source)
    axis = int(given.item() if given is not None else 0) % rank
    count = _steps(node, source, axis)
    parts = [node.cut(source, axis, n, n + 1) for n in range(count)]
    parts = parts[::-1] if node.attribute("reverse", 0) else parts
    if node.attribute("exclusive", 0):
        one = node.op("Expand", node.like(1, source), node.op("Shape", parts[0]))
        parts = [one, *parts[:-1]]
    products = parts[:1]
    for part in parts[1:]:
        products.append(node.op("Mul", products[-1], part))
    products = products[::-1] if node.attribute("reverse", 0) else products
    node.op("Concat", *products, axis=axis, to=node.output(0))
