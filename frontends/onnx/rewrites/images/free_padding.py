"""The padding of images of free sizes, where it depends on the size of the image."""

from __future__ import annotations

from typing import Any

from numc.frontends.onnx.rewrites.images.free_averages import average_free_image
from numc.frontends.onnx.rewrites.images.windows import Windows
from numc.frontends.onnx.rewrites.node import Node


def pad_free_image(node: Node, windows: Windows, fill: float) -> bool:
    """Write the padding of an image of free sizes so that torch-mlir does not make wrong sizes of it.

    Padding to the same size, and that for a last window that is not full, depend on the size of the image unless there
    are no strides. fill: what padding consists of. Returns whether the node is rewritten.
    """
    shape, source = node.known_shape(node.input(0)), node.input(0)
    if shape is None or None not in shape[2:]:
        return False
    before, after = padding_of_free_image(node, windows)
    known = [size for size in before + after if isinstance(size, int)]
    plain: dict[str, Any] = {"auto_pad": None, "ceil_mode": None, "kernel_shape": windows.kernel}
    if len(known) == 2 * windows.rank and (node.proto.op_type != "MaxPool" or before == after):
        if windows.auto or windows.is_ceil:
            node.copy(**plain, pads=known)
        return bool(node.made)
    if node.proto.op_type == "AveragePool" and not (windows.auto and node.attribute("count_include_pad", 0)):
        average_free_image(node, windows, before, after)
        return True
    padded = node.op("Pad", source, node.list_of([0, 0, *before, 0, 0, *after]), node.like(fill, source))
    node.copy(**plain, pads=None).input[0] = padded
    return True


def padding_of_free_image(node: Node, windows: Windows) -> tuple[list[int | str], list[int | str]]:
    """Return the padding before and behind an image, numbers or lists of one, with which all windows are whole."""
    before: list[int | str] = [*windows.before]
    after: list[int | str] = [*windows.after]
    for n, (extent, s) in enumerate(zip(windows.extents, windows.strides, strict=True)):
        if windows.auto:
            small, large = _to_same_size(node, n + 2, extent, s)
            before[n], after[n] = (small, large) if windows.auto == "SAME_UPPER" else (large, small)
        elif windows.is_ceil and s > 1:
            after[n] = _for_last_window(node, n + 2, extent, stride=s, low=windows.before[n], high=windows.after[n])
    return before, after


def _to_same_size(node: Node, axis: int, extent: int, stride: int) -> tuple[int | str, int | str]:
    """The smaller and the larger half of the padding with which there are as many windows as strides in an image."""
    if stride == 1 or extent == 1:
        return (extent - 1) // 2, extent // 2
    size = node.list_of([node.size(node.input(0), axis)])
    # What the last window has of the image: 1 to `stride` elements.
    last = node.op("Add", node.op("Mod", node.op("Sub", size, node.ints(1)), node.ints(stride)), node.ints(1))
    total = node.op("Max", node.op("Sub", node.ints(extent), last), node.ints(0))
    small = node.op("Div", total, node.ints(2))
    return small, node.op("Sub", total, small)


def _for_last_window(node: Node, axis: int, extent: int, stride: int, low: int, high: int) -> str:
    """The padding behind an image so that the last window is full, as `Windows.on` has it for a fixed size."""
    size = node.list_of([node.size(node.input(0), axis)])
    begun = node.op("Add", size, node.ints(low))
    count = node.op("Div", node.op("Add", size, node.ints(low + high - extent + stride - 1)), node.ints(stride))
    start = node.op("Mul", count, node.ints(stride))
    behind = node.op("GreaterOrEqual", start, begun)
    start = node.op("Where", behind, node.op("Sub", start, node.ints(stride)), start)
    return node.op("Max", node.op("Sub", node.op("Add", start, node.ints(extent)), begun), node.ints(0))
