"""Pooling and other operators on windows. Where torch-mlir has none, an element of a window is a slice of the image."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numc.frontends.onnx.rewrites.images.free_averages import average_free_image
from numc.frontends.onnx.rewrites.node import Node, RefusedError


@dataclass(frozen=True)
class _Windows:
    """The windows of an image of fixed size. Each list has a number for every dimension of the image."""

    image: list[int]
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @property
    def counts(self) -> list[int]:
        """How many windows there are."""
        rows = zip(self.image, self.kernel, self.strides, self.dilations, self.before, self.after, strict=True)
        return [(size + low + high - (k - 1) * d - 1) // s + 1 for size, k, s, d, low, high in rows]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """The places of the elements in a window."""
        for place in itertools.product(*(range(k) for k in self.kernel)):
            yield tuple(p * d for p, d in zip(place, self.dilations, strict=True))


def windows_of(node: Node, kernel: Sequence[int]) -> _Windows:
    """The windows of a node on its first input. Raises RefusedError if that has a free size."""
    shape = node.shape(node.input(0))
    rank = len(kernel)
    image = [size for size in shape[2:] if size is not None]
    if len(image) != rank:
        raise RefusedError("it is available for images of fixed sizes only: give shapes={...} or --shape")
    strides, dilations = (list(node.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    auto, pads = node.attribute("auto_pad", "NOTSET"), list(node.attribute("pads", [0] * (2 * rank)))
    before, after = pads[:rank], pads[rank:]
    if auto.startswith("SAME"):
        for n, (size, k, s, d) in enumerate(zip(image, kernel, strides, dilations, strict=True)):
            total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
            small, large = total // 2, total - total // 2
            before[n], after[n] = (small, large) if auto == "SAME_UPPER" else (large, small)
    elif node.attribute("ceil_mode", 0):
        for n, (size, k, s, d) in enumerate(zip(image, kernel, strides, dilations, strict=True)):
            span = size + before[n] + after[n] - (k - 1) * d - 1
            count = -(-span // s) + 1
            if (count - 1) * s >= size + before[n]:
                count -= 1
            after[n] += max(0, (count - 1) * s - span)
    return _Windows(image, list(kernel), strides, dilations, before, after)


def _taps(node: Node, value: str, windows: _Windows, fill: float) -> Iterator[str]:
    """Emit, one after the other, the elements at one place of all windows."""
    axes = node.ints(*range(2, 2 + len(windows.kernel)))
    if any(windows.before + windows.after):
        pads = node.ints(0, 0, *windows.before, 0, 0, *windows.after)
        value = node.op("Pad", value, pads, node.like(fill, node.input(0)))
    steps = node.ints(*windows.strides)
    for offset in windows.offsets():
        ends = [o + (c - 1) * s + 1 for o, c, s in zip(offset, windows.counts, windows.strides, strict=True)]
        yield node.op("Slice", value, node.ints(*offset), node.ints(*ends), axes, steps)


def pad_free_image(node: Node, kernel: Sequence[int], fill: float) -> bool:
    """Write the padding of an image of free sizes so that torch-mlir does not make wrong sizes of it.

    Padding to the same size, and that for a last window that is not full, depend on the size of the image unless there
    are no strides. fill: what padding consists of. Returns whether the node is rewritten.
    """
    shape, source = node.known_shape(node.input(0)), node.input(0)
    if shape is None or None not in shape[2:]:
        return False
    rank = len(kernel)
    strides, dilations = (list(node.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    auto, pads = node.attribute("auto_pad", "NOTSET"), list(node.attribute("pads", [0] * (2 * rank)))
    is_ceil = node.attribute("ceil_mode", 0) != 0
    before: list[int | str] = [*pads[:rank]]
    after: list[int | str] = [*pads[rank:]]
    for n, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        extent = (k - 1) * d + 1
        if auto.startswith("SAME"):
            small, large = _to_same_size(node, n + 2, extent, s)
            before[n], after[n] = (small, large) if auto == "SAME_UPPER" else (large, small)
        elif is_ceil and s > 1:
            after[n] = _for_last_window(node, n + 2, extent, s, pads[n], pads[rank + n])
    known = [size for size in before + after if isinstance(size, int)]
    plain: dict[str, Any] = {"auto_pad": None, "ceil_mode": None, "kernel_shape": list(kernel)}
    if len(known) == 2 * rank and (node.proto.op_type != "MaxPool" or before == after):
        if auto.startswith("SAME") or is_ceil:
            node.copy(**plain, pads=known)
        return bool(node.made)
    if node.proto.op_type == "AveragePool" and not (auto.startswith("SAME") and node.attribute("count_include_pad", 0)):
        average_free_image(node, kernel, before, after)
        return True
    padded = node.op("Pad", source, node.list_of([0, 0, *before, 0, 0, *after]), node.like(fill, source))
    node.copy(**plain, pads=None).input[0] = padded
    return True


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
    """The padding behind an image so that the last window is full, as `_ceil_padding` has it for a fixed size."""
    size = node.list_of([node.size(node.input(0), axis)])
    begun = node.op("Add", size, node.ints(low))
    count = node.op("Div", node.op("Add", size, node.ints(low + high - extent + stride - 1)), node.ints(stride))
    start = node.op("Mul", count, node.ints(stride))
    behind = node.op("GreaterOrEqual", start, begun)
    start = node.op("Where", behind, node.op("Sub", start, node.ints(stride)), start)
    return node.op("Max", node.op("Sub", node.op("Add", start, node.ints(extent)), begun), node.ints(0))


def convolution(node: Node) -> None:
    """Conv of an image of free sizes."""
    weight = node.known_shape(node.input(1))
    if weight is not None and None not in weight:
        pad_free_image(node, [int(size or 0) for size in weight[2:]], 0)


def lp_pool(node: Node) -> None:
    """LpPool: the norms of windows; torch-mlir does no dilations and no padding to the same size."""
    windows = windows_of(node, node.attribute("kernel_shape", ()))
    p = node.attribute("p", 2)
    total = ""
    for tap in _taps(node, node.input(0), windows, 0):
        size = node.op("Abs", tap)
        power = size if p == 1 else node.op("Pow", size, node.like(p, node.input(0)))
        total = node.op("Add", total, power) if total else power
    if p == 1:
        node.op("Identity", total, to=node.output(0))
    else:
        node.op("Pow", total, node.like(1 / p, node.input(0)), to=node.output(0))


def max_pool_with_indices(node: Node) -> None:
    """MaxPool with its output Indices: positions in the flat input."""
    source = node.input(0)
    windows = windows_of(node, node.attribute("kernel_shape", ()))
    batch, channels = node.shape(source)[:2]
    if batch is None or channels is None:
        raise RefusedError("its output Indices is available for inputs of fixed sizes only: give shapes={...}")
    strides = [int(np.prod(windows.image[n + 1 :])) for n in range(len(windows.image))]
    if node.attribute("storage_order", 0):
        strides = [int(np.prod(windows.image[:n])) for n in range(len(windows.image))]
    best = where = ""
    for tap, offset in zip(_taps(node, source, windows, -np.inf), windows.offsets(), strict=True):
        position = np.zeros(windows.counts, dtype=np.int64)
        for n, (count, step) in enumerate(zip(windows.counts, windows.strides, strict=True)):
            along = (np.arange(count) * step + offset[n] - windows.before[n]) * strides[n]
            position += along.reshape([-1 if d == n else 1 for d in range(len(windows.counts))])
        here = node.constant(position, np.int64)
        if not best:
            best, where = tap, here
            continue
        better = node.op("Greater", tap, best)
        best, where = node.op("Where", better, tap, best), node.op("Where", better, here, where)
    plane = np.arange(batch * channels) * int(np.prod(windows.image))
    planes = node.constant(plane.reshape(batch, channels, *[1] * len(windows.image)), np.int64)
    node.op("Add", where, planes, to=node.output(1))
    node.op("Identity", best, to=node.output(0) or node.fresh())


def max_unpool(node: Node) -> None:
    """MaxUnpool: values are scattered to their positions in a flat result."""
    source, indices = node.input(0), node.input(1)
    kernel = node.attribute("kernel_shape", ())
    windows = windows_of(node, kernel)
    given = node.constant_input(2, "output_shape")
    batch, channels = node.size(source, 0), node.size(source, 1)
    rows = zip(windows.image, kernel, windows.strides, windows.before, windows.after, strict=True)
    image = [(size - 1) * s - low - high + k for size, k, s, low, high in rows]
    sizes = [int(size) for size in given.reshape(-1)] if given is not None else [batch, channels, *image]
    if given is not None and list(given[2:]) != image:
        # The positions are those in a result of the usual size, the first part of the one that is wanted.
        _unpooled_into(node, image, [int(size) for size in given.reshape(-1)])
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
    kernel, rank = [int(k) for k in block.reshape(-1)], block.size
    pads = list(node.attribute("pads", [0] * (2 * rank)))
    windows = _Windows(
        [int(size) for size in image.reshape(-1)],
        kernel,
        list(node.attribute("strides", [1] * rank)),
        list(node.attribute("dilations", [1] * rank)),
        pads[:rank],
        pads[rank:],
    )
    elements, count = int(np.prod(kernel)), int(np.prod(windows.counts))
    batch, rows = node.size(source, 0), node.shape(source)[1]
    if rows is None:
        raise RefusedError("its channels have no fixed size: give shapes={...} or --shape")
    padded = [size + low + high for size, low, high in zip(windows.image, windows.before, windows.after, strict=True)]
    taps: list[list[int]] = [[] for _ in range(int(np.prod(padded)))]
    starts = [range(0, c * s, s) for c, s in zip(windows.counts, windows.strides, strict=True)]
    for element, offset in enumerate(windows.offsets()):
        for number, start in enumerate(itertools.product(*starts)):
            place = int(np.ravel_multi_index([a + b for a, b in zip(start, offset, strict=True)], padded))
            taps[place].append(element * count + number)
    inner = np.arange(len(taps)).reshape(padded)
    inner = inner[tuple(slice(low, low + size) for low, size in zip(windows.before, windows.image, strict=True))]
    chosen = [taps[place] for place in inner.reshape(-1)]
    flat = node.reshape(source, [batch, rows // elements, elements * count])
    flat = node.op("Pad", flat, node.ints(0, 0, 0, 0, 0, 1))  # where no block lies there is a zero
    total = ""
    for n in range(max(map(len, chosen)) or 1):
        index = [places[n] if n < len(places) else elements * count for places in chosen]
        part = node.op("Gather", flat, node.constant(index, np.int64), axis=2)
        total = node.op("Add", total, part) if total else part
    node.reshape(total, [batch, rows // elements, *windows.image], to=node.output(0))


def roi_align(node: Node) -> None:
    """RoiAlign with a fixed number of samples for every bin: each is interpolated between four elements."""
    source, regions, numbers = node.input(0), node.input(1), node.input(2)
    samples = node.attribute("sampling_ratio", 0)
    if samples < 1:
        raise RefusedError("its sampling_ratio 0 is not available: the number of samples would depend on data")
    mode = node.attribute("mode", "avg")
    transformed = node.attribute("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "")
    half = 0.5 if transformed == "half_pixel" else 0.0
    bins = [node.attribute("output_height", 1), node.attribute("output_width", 1)]
    scale = node.constant(node.attribute("spatial_scale", 1.0), np.float32)
    image = node.shape(source)[2:]
    channels, count = node.size(source, 1), node.size(regions, 0)
    height, width = image
    if height is None or width is None:
        raise RefusedError("it is available for images of fixed sizes only: give shapes={...} or --shape")
    op = node.op

    def number(value: float) -> str:
        return node.constant(value, np.float32)

    scaled = op("Sub", op("Mul", regions, scale), number(half))
    places = []
    for axis, size in ((1, height), (0, width)):
        start = op("Gather", scaled, node.ints(axis), axis=1)
        end = op("Gather", scaled, node.ints(axis + 2), axis=1)
        span = op("Sub", end, start)
        if not half:
            span = op("Max", span, number(1))
        total = bins[0 if axis else 1]
        steps = (np.arange(total * samples) + 0.5) / (samples * total)
        places.append((op("Add", start, op("Mul", span, node.constant(steps[None, :], np.float32))), size))
    (y, _), (x, _) = places
    rows, columns = bins[0] * samples, bins[1] * samples
    y = op("Expand", node.reshape(y, [count, rows, 1]), node.list_of([count, rows, columns]))
    x = op("Expand", node.reshape(x, [count, 1, columns]), node.list_of([count, rows, columns]))
    inside = ""
    tables = []
    for place, size in ((y, height), (x, width)):
        here = op("And", op("GreaterOrEqual", place, number(-1)), op("LessOrEqual", place, number(size)))
        inside = op("And", inside, here) if inside else here
        bounded = op("Min", op("Where", op("Greater", place, number(0)), place, number(0)), number(size - 1))
        low = op("Floor", bounded)
        ratio = op("Sub", bounded, low)
        high = op("Min", op("Add", low, number(1)), number(size - 1))
        tables.append([(low, op("Sub", number(1), ratio)), (high, ratio)])
    flat = node.transpose(node.reshape(source, [node.size(source, 0), channels, height * width]), 0, 2, 1)
    flat = node.reshape(flat, [node.product(node.size(source, 0), height * width), channels])
    first = op("Mul", node.cast(numbers, 7), node.constant(height * width, np.int64))
    first = node.reshape(first, [count, 1, 1])
    values = []
    for (row, one), (column, other) in itertools.product(*tables):
        index = node.cast(op("Add", op("Mul", row, number(width)), column), 7)
        element = op("Gather", flat, op("Add", first, index), axis=0)
        factor = op("Where", inside, op("Mul", one, other), number(0))
        values.append(op("Mul", element, op("Unsqueeze", factor, node.ints(-1))))
    if mode == "avg":
        total_value = values[0]
        for value in values[1:]:
            total_value = op("Add", total_value, value)
        split = node.reshape(total_value, [count, bins[0], samples, bins[1], samples, channels])
        pooled = op("ReduceMean", split, node.ints(2, 4), keepdims=0)
    else:
        most = values[0]
        for value in values[1:]:
            most = op("Max", most, value)
        split = node.reshape(most, [count, bins[0], samples, bins[1], samples, channels])
        pooled = op("ReduceMax", split, node.ints(2, 4), keepdims=0)
    node.transpose(pooled, 0, 3, 1, 2, to=node.output(0))


def max_pool(node: Node) -> None:
    """MaxPool: rounding up the number of windows is more padding behind the image; -inf is no maximum."""
    if node.output(1):
        max_pool_with_indices(node)
        return
    if pad_free_image(node, node.attribute("kernel_shape", ()), -np.inf):
        return
    if not node.attribute("ceil_mode", 0):
        return
    if node.attribute("auto_pad", "NOTSET").startswith("SAME"):  # they say how many windows there are
        node.copy(ceil_mode=None)
        return
    kernel, before, _, wanted = _ceil_padding(node)
    node.copy(ceil_mode=None, auto_pad=None, kernel_shape=kernel, pads=before + wanted)


def average_pool(node: Node) -> None:
    """AveragePool: the padding for the last window does not count, whether the other padding does or not."""
    if pad_free_image(node, node.attribute("kernel_shape", ()), 0):
        return
    if not node.attribute("ceil_mode", 0):
        return
    if node.attribute("auto_pad", "NOTSET").startswith("SAME"):
        node.copy(ceil_mode=None)
        return
    kernel, before, after, wanted = _ceil_padding(node)
    plain = {"ceil_mode": None, "auto_pad": None, "kernel_shape": kernel}
    if not node.attribute("count_include_pad", 0) or not any(w > a for w, a in zip(wanted, after, strict=True)):
        node.copy(**plain, pads=before + wanted)
        return
    padded = node.op("Pad", node.input(0), node.ints(0, 0, *before, 0, 0, *after))
    more = [max(0, w - a) for w, a in zip(wanted, after, strict=True)]
    pool = node.copy(**plain, pads=[0] * len(before) + more, count_include_pad=0)
    pool.input[0] = padded


def _ceil_padding(node: Node) -> tuple[list[int], list[int], list[int], list[int]]:
    """The sizes of windows, the padding before and after an image, and that after it to round down instead of up.

    A window that would begin behind the image and the padding before it is left out, as in PyTorch and onnxruntime.
    One that is larger than the padded image is cut to that.
    """
    shape = node.known_shape(node.input(0))
    kernel = list(node.attribute("kernel_shape", ()))
    rank = len(kernel)
    if shape is None:
        raise RefusedError("ceil_mode is available for images of known rank only: give shapes={...} or --shape")
    strides, dilations = (node.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads = list(node.attribute("pads", [0] * (2 * rank)))
    before, after = pads[:rank], pads[rank:]
    wanted = []
    kernel = [min(k, sum(each)) for k, *each in zip(kernel, shape[2:], before, after, strict=True)]
    for size, k, s, d, low, high in zip(shape[2:], kernel, strides, dilations, before, after, strict=True):
        extent = (k - 1) * d + 1
        count = -(-(size + low + high - extent) // s) + 1
        if (count - 1) * s >= size + low:
            count -= 1
        wanted.append(max(0, (count - 1) * s + extent - size - low))
    return kernel, before, after, wanted
