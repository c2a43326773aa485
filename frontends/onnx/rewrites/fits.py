"""What does not fit an operator, although torch-mlir would compute something of it: sizes and attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numc.frontends.onnx.rewrites.node import Node

Sizes = Sequence[int | None]


def misfit(node: Node) -> str:
    """Return what of a node does not fit its operator, "" if all does or is not known."""
    check = _CHECKS.get(node.proto.op_type)
    if check is None or node.proto.domain not in ("", "ai.onnx"):
        return ""
    shapes = [node.known_shape(name) if name else None for name in node.proto.input]
    first = shapes[0] if shapes else None
    return "" if first is None else check(node, first, shapes[1:])


def differ(sizes: Sizes | None, wanted: Sizes) -> bool:
    """Whether sizes are known to be others."""
    if sizes is None:
        return False
    pairs = zip(sizes, wanted, strict=False)
    return len(sizes) != len(wanted) or any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _wrong(node: Node, n: int, shapes: Sequence[Sizes | None], wanted: Sizes) -> str:
    """What is said of input `n`, 0 for the first of `shapes`, if it has not the sizes that are wanted."""
    if n >= len(shapes) or not differ(shapes[n], wanted):
        return ""
    sizes = ", ".join("?" if size is None else str(size) for size in wanted)
    return f"'{node.input(n + 1)}' has sizes {shapes[n]}: [{sizes}] are needed"


def _image(node: Node, first: Sizes, _: Sequence[Sizes | None]) -> str:
    return "" if len(first) > 2 else f"'{node.input(0)}' has {len(first)} dimensions, and 3 are the least of an image"


def _instance_normalization(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    wrong = (_wrong(node, n, shapes, first[1:2]) for n in range(2))
    return _image(node, first, shapes) or next(filter(None, wrong), "")


def _group_normalization(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    groups = node.attribute("num_groups", 1)
    channels = first[1] if len(first) > 2 else None
    if groups < 1 or (channels is not None and channels % groups):
        return f"its num_groups is {groups}, which does not divide its {channels} channels"
    return _image(node, first, shapes)


def _depth_to_space(node: Node, first: Sizes, _: Sequence[Sizes | None]) -> str:
    block = node.attribute("blocksize", 1)
    if len(first) == 4 and block > 0 and (first[1] is None or first[1] % block**2 == 0):
        return ""
    return f"its blocksize is {block}, whose square does not divide the channels of an image of sizes {first}"


def _transpose(node: Node, first: Sizes, _: Sequence[Sizes | None]) -> str:
    order = list(node.attribute("perm", range(len(first))[::-1]))
    return "" if sorted(order) == list(range(len(first))) else f"its perm {order} is no order of {len(first)} axes"


def _gather_elements(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    found = shapes[0]
    if found is None:
        return ""
    axis = node.axis(len(first), 0)
    pairs = zip(found, first, strict=False)
    small = all(n == axis or None in pair or pair[0] <= pair[1] for n, pair in enumerate(pairs))  # type: ignore[operator]
    if len(found) == len(first) and small:
        return ""
    return f"'{node.input(1)}' has sizes {found}, which reach beyond those of '{node.input(0)}', {first}"


def _scatter_elements(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    return _gather_elements(node, first, shapes) or (_wrong(node, 1, shapes, shapes[0]) if shapes[0] else "")


def _grid_sample(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    return _wrong(node, 0, shapes, [first[0], *[None] * (len(first) - 2), len(first) - 2])


def _reverse_sequence(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    axis = node.attribute("batch_axis", 1)
    return _wrong(node, 0, shapes, [first[axis]]) if axis in (0, 1) and len(first) > 1 else ""


def _local_response(node: Node, *_: object) -> str:
    size = node.attribute("size", 1)
    return "" if size > 0 else f"its size is {size}: it has to be 1 or more"


def _norm(node: Node, *_: object) -> str:
    p = node.attribute("p", 2)
    return "" if p in (1, 2) else f"its attribute p is {p}: only 1 and 2 are allowed"


def _regions(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    return _image(node, first, shapes) or _wrong(node, 0, shapes, [None, 4])


def _recurrent(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    hidden, gates = node.attribute("hidden_size", 0), {"LSTM": 4, "GRU": 3}.get(node.proto.op_type, 1)
    directions = 2 if node.attribute("direction", "forward") == "bidirectional" else 1
    if hidden < 1 or len(first) != 3:
        return f"its hidden_size is {hidden}, and '{node.input(0)}' has sizes {first}: 1 or more, and 3, are needed"
    rows = [directions, gates * hidden]
    wanted = ([*rows, first[2]], [*rows, hidden], [directions, 2 * gates * hidden])
    return next(filter(None, (_wrong(node, n, shapes, sizes) for n, sizes in enumerate(wanted))), "")


def _compress(node: Node, _: Sizes, shapes: Sequence[Sizes | None]) -> str:
    return _wrong(node, 0, shapes, [None])


def _boxes(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    if differ(first, [None, None, 4]):
        return f"'{node.input(0)}' has sizes {first}: [?, ?, 4] are needed"
    return _wrong(node, 0, shapes, [first[0], None, first[1]])


def _rotary(node: Node, first: Sizes, shapes: Sequence[Sizes | None]) -> str:
    if len(first) not in (3, 4):
        return f"'{node.input(0)}' has {len(first)} dimensions: 3 or 4 are allowed"
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
    return _wrong(node, 0, shapes, half) or _wrong(node, 1, shapes, half)


_CHECKS: dict[str, Callable[[Node, Sizes, Sequence[Sizes | None]], str]] = {
    "Compress": _compress,
    "DepthToSpace": _depth_to_space,
    "GatherElements": _gather_elements,
    "GlobalAveragePool": _image,
    "GlobalLpPool": _image,
    "GlobalMaxPool": _image,
    "GridSample": _grid_sample,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response,
    "LpNormalization": _norm,
    "NonMaxSuppression": _boxes,
    "ReverseSequence": _reverse_sequence,
    "RoiAlign": _regions,
    "RotaryEmbedding": _rotary,
    "ScatterElements": _scatter_elements,
    "Transpose": _transpose,
}
