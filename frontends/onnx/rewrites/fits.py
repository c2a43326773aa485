"""Attributes and ranks that torch-mlir computes something of, or ends at, although no operator has them so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numc.frontends.onnx.rewrites.node import Node

Sizes = Sequence[int | str | None]
"""A free size is its name, or None."""


def misfit(node: Node) -> str:
    """Return what of the attributes of a node does not fit its operator, "" if all does or is not known."""
    check = _CHECKS.get(node.proto.op_type)
    if check is None or node.proto.domain not in ("", "ai.onnx"):
        return ""
    return check(node)


def _transpose(node: Node) -> str:
    shape = node.known_shape(node.input(0))
    if shape is None:
        return ""
    order = list(node.attribute("perm", range(len(shape))[::-1]))
    return "" if sorted(order) == list(range(len(shape))) else f"its perm {order} is no order of {len(shape)} axes"


def _local_response(node: Node) -> str:
    size = node.attribute("size", 1)
    return "" if size > 0 else f"its size is {size}: it has to be 1 or more"


def _norm(node: Node) -> str:
    p = node.attribute("p", 2)
    return "" if p in (1, 2) else f"its attribute p is {p}: want 1 or 2"


def differing(name: str, found: Sizes, needed: Sizes) -> str:
    """Return what is said of a value if it is known not to have the sizes that are needed, otherwise ""."""
    pairs = zip(found, needed, strict=False)
    if len(found) == len(needed) and not any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        return ""
    return f"'{name}' has sizes {listed(found)}: {listed(needed)} are needed"


def listed(sizes: Sizes) -> str:
    """Return sizes as they are told: one that is not known is ?."""
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def _wrong(node: Node, n: int, needed: Sizes) -> str:
    sizes = node.known_shape(node.input(n)) if node.input(n) else None
    return "" if sizes is None else differing(node.input(n), sizes, needed)


def _attention(node: Node) -> str:
    """Onnx takes a free size of the values for 0, and so that of the result."""
    shape = node.known_shape(node.input(2))
    if shape is None or len(shape) != 3 or isinstance(shape[2], int):
        return ""
    return (
        f"the last dimension of '{node.input(2)}' is available with a fixed size only: give shapes={{...}} or --shape"
    )


def _compress(node: Node) -> str:
    return _wrong(node, 1, [None])


def _rotary(node: Node) -> str:
    first = node.known_shape(node.input(0))
    if first is None:
        return ""
    if len(first) not in (3, 4):
        return f"'{node.input(0)}' has {len(first)} dimensions: want 3 or 4"
    heads, size = node.attribute("num_heads", 0), first[-1]
    if len(first) == 3:
        if heads < 1 or (size is not None and size % heads):
            return f"its num_heads is {heads}, which does not divide the {size} elements of a token"
        size = None if size is None else size // heads
    turned = node.attribute("rotary_embedding_dim", 0) or size
    if turned is None:
        return ""
    if turned < 2 or turned % 2 or (size is not None and turned > size):
        return f"it turns {turned} of the {size or '?'} elements of a head: an even number of them is needed"
    half = [*[None] * (1 if node.input(3) else 2), turned // 2]
    return _wrong(node, 1, half) or _wrong(node, 2, half)


_CHECKS: dict[str, Callable[[Node], str]] = {
    "Attention": _attention,
    "Compress": _compress,
    "LRN": _local_response,
    "LpNormalization": _norm,
    "RotaryEmbedding": _rotary,
    "Transpose": _transpose,
}
