"""Operators that select, order and move elements."""

from __future__ import annotations

from numc.frontends.onnx.rewrites.node import END, Node, RefusedError


def extreme(node: Node) -> None:
    """ArgMax, ArgMin: torch-mlir counts from the end of another dimension where the size is free."""
    shape = node.known_shape(node.input(0))
    if node.attribute("select_last_index", 0) and (shape is None or shape[node.axis(len(shape), 0)] is None):
        raise RefusedError("select_last_index is available along dimensions of fixed size only")


def depth_to_space(node: Node) -> None:
    """DepthToSpace: torch-mlir mixes up the dimensions of CRD where one channel is left, where CRD and DCR are one."""
    shape, block = node.known_shape(node.input(0)), node.attribute("blocksize", 1)
    if node.attribute("mode", "DCR") == "CRD" and shape is not None and shape[1] == block * block:
        node.copy(mode="DCR")


def split(node: Node) -> None:
    """Split: a free dimension has the size that its parts add up to; torch-mlir would leave the rest over."""
    shape, parts = node.known_shape(node.input(0)), node.constants.get(node.input(1))
    if shape is None or parts is None:
        return
    axis = node.axis(len(shape), 0)
    if shape[axis] is None:
        whole = _sized(node, node.input(0), axis, int(parts.sum()), len(shape))
        node.copy().input[0] = whole
    elif shape[axis] != parts.sum():
        where = f"'{node.input(0)}' has in dimension {axis}"
        raise RefusedError(f"its parts {parts.tolist()} do not add up to {shape[axis]}, which {where}")


def top_k(node: Node) -> None:
    """TopK: a free dimension has k elements or more; torch-mlir would give those that there are."""
    shape, count = node.known_shape(node.input(0)), node.constants.get(node.input(1))
    if shape is not None and count is None:
        _top_k_of_a_run(node, len(shape))
    if shape is None or count is None or count.size != 1 or int(count.item()) < 2:
        return
    k, axis = int(count.item()), node.axis(len(shape), -1)
    if shape[axis] is None:
        first = _sized(node, node.cut(node.input(0), axis, 0, k), axis, k, len(shape))
        whole = node.op("Concat", first, node.cut(node.input(0), axis, k, END), axis=axis)
        node.copy().input[0] = whole


def _top_k_of_a_run(node: Node, rank: int) -> None:
    """The results have k elements, if k is known in a run only; torch-mlir would give those that there are."""
    axis, k = node.axis(rank, -1), node.input(1)
    never = node.ints(2**31)
    wanted = node.op("Where", node.op("Less", k, node.ints(0)), never, k)
    sizes = node.list_of([*[0] * axis, wanted, *[0] * (rank - axis - 1)])  # 0 keeps a size
    copy = node.copy()
    for n, result in enumerate(node.proto.output):
        if result:
            copy.output[n] = node.fresh()
            node.op("Reshape", copy.output[n], sizes, to=result)


def _sized(node: Node, value: str, axis: int, size: int, rank: int) -> str:
    """Emit a node that fixes a size, and fails the run if it is another one."""
    return node.op("Reshape", value, node.ints(*(size if d == axis else 0 for d in range(rank))))


def random(_: Node) -> None:
    """What draws random numbers."""
    raise RefusedError("draws random numbers: give them to the model as an input")
