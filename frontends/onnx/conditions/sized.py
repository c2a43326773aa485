"""The common part of the tables of conditions: the known facts of inputs, and that they have certain sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from numc.frontends.formulas import Known, value_of
from numc.frontends.onnx.rewrites.fits import differing
from numc.frontends.onnx.rewrites.node import Node, RefusedError

Condition = tuple[str, str]
"""A condition (numc/frontends/formulas.py), and what is said where it does not hold."""
Conditions = Iterator[Condition]
Table = dict[str, Callable[[Node], Conditions]]
"""By operator."""


def sized(node: Node, n: int, *wanted: int | str | None) -> Conditions:
    """Input `n` has these sizes: numbers or formulas, None for any. One that is left out asks nothing."""
    name = node.input(n)
    if not name:
        return
    tensors = known(node)
    needed = [value_of(size, tensors) if isinstance(size, str) else size for size in wanted]
    sizes = tensors[n].sizes or node.shape(name)
    if why := differing(name, sizes, needed):
        raise RefusedError(why)
    for axis, size in enumerate(wanted):
        if size is not None:
            yield f"size({n}, {axis}) == {size}", f"sizes do not fit: dimension {axis} of '{name}' has another size"


def known(node: Node) -> list[Known]:
    """Return what is known of the inputs of a node."""
    return [Known(_sizes(node, name), node.constants.get(name)) for name in node.proto.input]


def _sizes(node: Node, name: str) -> Sequence[int | str | None] | None:
    if name in node.constants or name not in node.types or node.known_shape(name) is None:
        return node.known_shape(name)
    dims = node.types[name].tensor_type.shape.dim
    return [int(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]


def alike(node: Node, n: int, other: int) -> Conditions:
    """Input `n` has the sizes of another one."""
    if node.input(n):
        yield from sized(node, n, *(f"size({other}, {axis})" for axis in range(node.rank(node.input(other)))))


def stretches(node: Node, n: int, axis: int = 0) -> Conditions:
    """Input `n` has the sizes of the first one from an axis on, or 1 in their places; it may have fewer of them."""
    name = node.input(n)
    if not name:
        return
    rank = node.rank(node.input(0))
    if node.rank(name) > rank - axis % max(rank, 1):
        raise RefusedError(f"'{name}' has {node.rank(name)} dimensions: want at most {rank - axis % rank}")
    for k in range(1, node.rank(name) + 1):
        fits = f"size({n}, -{k}) == size(0, -{k}) or size({n}, -{k}) == 1"
        yield fits, f"sizes do not fit: dimension {node.rank(name) - k} of '{name}' has another size"


def between(n: int, low: int | str, size: int | str) -> Conditions:
    """The elements of input `n` are indices from `low` on, and below a size."""
    yield f"each({n}) >= {low}", "an index is out of range"
    yield f"each({n}) < {size}", "an index is out of range"


def image(node: Node) -> int:
    """Return the rank of the first input. Raises RefusedError unless it is an image."""
    rank = node.rank(node.input(0))
    if rank < 3:
        raise RefusedError(f"'{node.input(0)}' has {rank} dimensions, and 3 are the least of an image")
    return rank
