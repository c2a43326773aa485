"""Pooling."""

from __future__ import annotations

from numc.frontends.onnx.rewrites.node import Node, RefusedError
from numc.frontends.onnx.rewrites.windows import max_pool_with_indices


def max_pool(node: Node) -> None:
    """MaxPool: rounding up the number of windows is more padding behind the image; -inf is no maximum."""
    if node.output(1):
        max_pool_with_indices(node)
        return
    if not node.attribute("ceil_mode", 0):
        return
    if node.attribute("auto_pad", "NOTSET").startswith("SAME"):  # they say how many windows there are
        node.copy(ceil_mode=None)
        return
    before, _, wanted = _padding(node)
    node.copy(ceil_mode=None, auto_pad=None, pads=before + wanted)


def average_pool(node: Node) -> None:
    """AveragePool: the padding for the last window does not count, whether the other padding does or not."""
    if not node.attribute("ceil_mode", 0):
        return
    if node.attribute("auto_pad", "NOTSET").startswith("SAME"):
        node.copy(ceil_mode=None)
        return
    before, after, wanted = _padding(node)
    plain = {"ceil_mode": None, "auto_pad": None}
    if not node.attribute("count_include_pad", 0) or not any(w > a for w, a in zip(wanted, after, strict=True)):
        node.copy(**plain, pads=before + wanted)
        return
    padded = node.op("Pad", node.input(0), node.ints(0, 0, *before, 0, 0, *after))
    more = [max(0, w - a) for w, a in zip(wanted, after, strict=True)]
    pool = node.copy(**plain, pads=[0] * len(before) + more, count_include_pad=0)
    pool.input[0] = padded


def _padding(node: Node) -> tuple[list[int], list[int], list[int]]:
    """The padding before and after an image, and that after it with which rounding down gives the same windows.

    A window that would begin behind the image and the padding before it is left out, as in PyTorch and onnxruntime.
    """
    shape = node.known_shape(node.input(0))
    kernel = list(node.attribute("kernel_shape", ()))
    rank = len(kernel)
    if shape is None or None in shape[2:]:
        raise RefusedError("ceil_mode is available for images of fixed sizes only: give shapes={...} or --shape")
    strides, dilations = (node.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads = list(node.attribute("pads", [0] * (2 * rank)))
    before, after = pads[:rank], pads[rank:]
    wanted = []
    for size, k, s, d, low, high in zip(shape[2:], kernel, strides, dilations, before, after, strict=True):
        assert size is not None
        extent = (k - 1) * d + 1
        count = -(-(size + low + high - extent) // s) + 1
        if (count - 1) * s >= size + low:
            count -= 1
        wanted.append(max(0, (count - 1) * s + extent - size - low))
    return before, after, wanted
