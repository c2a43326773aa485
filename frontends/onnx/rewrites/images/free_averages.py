"""AveragePool of images of free sizes whose padding follows from the sizes: sums over the numbers of elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from onnx import TensorProto

from numc.frontends.onnx.rewrites.images.windows import Windows
from numc.frontends.onnx.rewrites.node import END, Node, Sizes


def average_free_image(node: Node, windows: Windows, before: Sizes, after: Sizes) -> None:
    """Emit the averages of the windows of an image. before, after: its padding, which is as long as the last window.

    What counts is the image, or with count_include_pad the padding that the node declares, too.
    """
    op, source, rank = node.op, node.input(0), windows.rank
    is_declared = node.attribute("count_include_pad", 0) != 0
    total = ""
    for element in taps_of_free_image(node, windows, before, after):
        total = op("Add", total, element) if total else element
    taps, count = _offsets(windows), ""
    for n in range(rank):
        begins, size = node.list_of([before[n]]), node.list_of([node.size(source, n + 2)])
        ends = op("Add", begins, size)
        places = node.steps(op("Add", ends, node.list_of([after[n]])))
        if is_declared:
            begins, ends = node.ints(0), op("Add", ends, node.ints(windows.after[n]))
        inside = op("And", op("GreaterOrEqual", places, begins), op("Less", places, ends))
        line = node.cast(inside, TensorProto.INT64)
        along = ""
        for offset in taps[n]:
            counted = _every(node, line, 0, offset=offset, last=taps[n][-1], stride=windows.strides[n])
            along = op("Add", along, counted) if along else counted
        column = node.reshape(along, [-1, *[1] * (rank - 1 - n)])
        count = op("Mul", count, column) if count else column
    op("Div", total, node.cast(count, node.dtype(source) or TensorProto.FLOAT), to=node.output(0))


def taps_of_free_image(node: Node, windows: Windows, before: Sizes, after: Sizes) -> Iterator[str]:
    """Emit, one after the other, the elements at one place of all windows on the first input, padded by zeros."""
    source, taps = node.input(0), _offsets(windows)
    padded = node.op("Pad", source, node.list_of([0, 0, *before, 0, 0, *after]), node.like(0, source))
    for offsets in itertools.product(*taps):
        element = padded
        for n, offset in enumerate(offsets):
            element = _every(node, element, n + 2, offset=offset, last=taps[n][-1], stride=windows.strides[n])
        yield element


def _offsets(windows: Windows) -> list[list[int]]:
    """The places of the elements of a window along every dimension."""
    return [[tap * d for tap in range(k)] for k, d in zip(windows.kernel, windows.dilations, strict=True)]


def _every(node: Node, value: str, axis: int, offset: int, last: int, stride: int) -> str:
    """Emit the elements at one place of all windows along an axis. last: the place of the last element of a window."""
    return node.cut(value, axis, offset, offset - last or END, step=stride)
