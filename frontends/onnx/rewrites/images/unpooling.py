"""MaxUnpool and Col2Im: elements that go to places in an image."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from numc.frontends.onnx.rewrites.images.windows import fixed_image, windows_of
from numc.frontends.onnx.rewrites.node import Node, RefusedError


def max_unpool(node: Node) -> None:
    """MaxUnpool: values are scattered to their positions in a flat result."""
    source, indices = node.input(0), node.input(1)
    windows = windows_of(node, node.attribute("kernel_shape", ()))
    output_shape = node.constant_input(2, "output_shape")
    batch, channels = node.size(source, 0), node.size(source, 1)
    rows = zip(fixed_image(node), windows.kernel, windows.strides, windows.before, windows.after, strict=True)
    image = [(size - 1) * s - low - high + k for size, k, s, low, high in rows]
    sizes = [int(size) for size in output_shape.reshape(-1)] if output_shape is not None else [batch, channels, *image]
    if output_shape is not None and list(output_shape[2:]) != image:
        # The positions are those in a result of the usual size, the first part of the one that is wanted.
        _unpooled_into(node, image, [int(size) for size in output_shape.reshape(-1)])
        return
    _scattered(node, source, indices, sizes, node.output(0))


def _scattered(node: Node, source: str, indices: str, sizes: Sequence[int | str], to: str) -> None:
    flat, places = node.op("Reshape", source, node.ints(-1)), node.op("Reshape", indices, node.ints(-1))
    empty = node.op("Expand", node.like(0, source), node.list_of([node.product(*sizes)]))
    node.reshape(node.op("ScatterElements", empty, places, flat, axis=0), sizes, to=to)


def _unpooled_into(node: Node, image: list[int], shape: list[int]) -> None:
    small = [*shape[:2], *image]
    value = node.fresh()
    _scattered(node, node.input(0), node.input(1), small, value)
    more = [wide - narrow for wide, narrow in zip(shape, small, strict=True)]
    if any(number < 0 for number in more):
        raise RefusedError(f"its output_shape {shape} is smaller than {small}")
    node.op("Pad", value, node.ints(*[0] * len(shape), *more), to=node.output(0))


def col_to_image(node: Node) -> None:
    """Col2Im: every element of the image is the sum of the elements of the blocks that lie there."""
    source = node.input(0)
    image = node.constant_input(1, "image_shape")
    block = node.constant_input(2, "block_shape")
    assert image is not None
    assert block is not None
    sizes = [int(size) for size in image.reshape(-1)]
    windows = windows_of(node, [int(k) for k in block.reshape(-1)], has_image=False)
    if len(sizes) != windows.rank or min(sizes) < 1:
        raise RefusedError(f"its image_shape is {sizes}: it has to have {windows.rank} sizes from 1")
    counts = windows.counts(sizes)
    elements, count = int(np.prod(windows.kernel)), int(np.prod(counts))
    batch, rows = node.size(source, 0), node.shape(source)[1]
    if rows is None:
        raise RefusedError("its channels have no fixed size: give shapes={...} or --shape")
    padded = [size + low + high for size, low, high in zip(sizes, windows.before, windows.after, strict=True)]
    taps: list[list[int]] = [[] for _ in range(int(np.prod(padded)))]
    starts = [range(0, c * s, s) for c, s in zip(counts, windows.strides, strict=True)]
    for element, offset in enumerate(windows.offsets()):
        for number, start in enumerate(itertools.product(*starts)):
            pixel = int(np.ravel_multi_index([a + b for a, b in zip(start, offset, strict=True)], padded))
            taps[pixel].append(element * count + number)
    inner = np.arange(len(taps)).reshape(padded)
    inner = inner[tuple(slice(low, low + size) for low, size in zip(windows.before, sizes, strict=True))]
    chosen = [taps[pixel] for pixel in inner.reshape(-1)]
    flat = node.reshape(source, [batch, rows // elements, elements * count])
    flat = node.op("Pad", flat, node.ints(0, 0, 0, 0, 0, 1))  # where no block lies there is a zero
    total = ""
    for n in range(max(map(len, chosen)) or 1):
        index = [places[n] if n < len(places) else elements * count for places in chosen]
        part = node.op("Gather", flat, node.constant(index, np.int64), axis=2)
        total = node.op("Add", total, part) if total else part
    node.reshape(total, [batch, rows // elements, *sizes], to=node.output(0))
