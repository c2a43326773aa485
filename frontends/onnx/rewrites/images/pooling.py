"""Pooling. Where torch-mlir has none, an element of a window is a slice of the image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from numc.frontends.onnx.rewrites.images.free_averages import taps_of_free_image
from numc.frontends.onnx.rewrites.images.free_padding import pad_free_image, padding_of_free_image
from numc.frontends.onnx.rewrites.images.windows import Windows, fixed_image, windows_of
from numc.frontends.onnx.rewrites.node import Node, RefusedError


def max_pool(node: Node) -> None:
    """MaxPool: rounding up the number of windows is more padding behind the image; -inf is no maximum."""
    if node.output(1):
        max_pool_with_indices(node)
        return
    windows = _pooled(node)
    if windows.rank == 3 and max(windows.dilations) > 1 and not node.is_float(node.input(0)):
        _max_of_taps(node, windows)  # torch-mlir crashes
        return
    if pad_free_image(node, windows, -np.inf):
        return
    if windows.auto or not windows.is_ceil:
        _as_automatic(node)
        return
    whole = windows.on(fixed_image(node))
    node.copy(ceil_mode=None, auto_pad=None, kernel_shape=whole.kernel, pads=whole.before + whole.after)


def average_pool(node: Node) -> None:
    """AveragePool: the padding for the last window does not count, whether the other padding does or not."""
    windows = _pooled(node)
    if pad_free_image(node, windows, 0):
        return
    if windows.auto or not windows.is_ceil:
        _as_automatic(node)
        return
    whole = windows.on(fixed_image(node))
    before, after, wanted = windows.before, windows.after, whole.after
    plain = {"ceil_mode": None, "auto_pad": None, "kernel_shape": whole.kernel}
    if not node.attribute("count_include_pad", 0) or not any(w > a for w, a in zip(wanted, after, strict=True)):
        node.copy(**plain, pads=before + wanted)
        return
    padded = node.op("Pad", node.input(0), node.ints(0, 0, *before, 0, 0, *after))
    more = [max(0, w - a) for w, a in zip(wanted, after, strict=True)]
    pool = node.copy(**plain, pads=[0] * len(before) + more, count_include_pad=0)
    pool.input[0] = padded


def _as_automatic(node: Node) -> None:
    """Leave out what has no meaning beside auto_pad, which says how many windows there are: torch-mlir mixes them."""
    idle = node.attribute("ceil_mode", 0) or node.attribute("pads", ())
    if idle and node.attribute("auto_pad", "NOTSET") != "NOTSET":
        node.copy(ceil_mode=None, pads=None)


def _pooled(node: Node) -> Windows:
    return windows_of(node, node.attribute("kernel_shape", ()))


def lp_pool(node: Node) -> None:
    """LpPool: the norms of windows; torch-mlir does no dilations and no padding to the same size."""
    windows, p = _pooled(node), node.attribute("p", 2)
    if p < 1:
        raise RefusedError(f"its attribute p is {p}: it has to be 1 or more")
    if None in node.shape(node.input(0))[2:]:
        taps = taps_of_free_image(node, windows, *padding_of_free_image(node, windows))
    else:
        image = fixed_image(node)
        taps = _taps(node, image, windows.on(image), 0)
    total = ""
    for tap in taps:
        size = node.op("Abs", tap)
        power = size if p == 1 else node.op("Pow", size, node.like(p, node.input(0)))
        total = node.op("Add", total, power) if total else power
    if p == 1:
        node.op("Identity", total, to=node.output(0))
    else:
        node.op("Pow", total, node.like(1 / p, node.input(0)), to=node.output(0))


def _max_of_taps(node: Node, windows: Windows) -> None:
    image = fixed_image(node)
    taps = list(_taps(node, image, windows.on(image), -np.inf))
    node.op("Max", *taps, to=node.output(0))


def max_pool_with_indices(node: Node) -> None:
    """MaxPool with its output Indices: positions in the flat input."""
    source, image = node.input(0), fixed_image(node)
    windows = _pooled(node).on(image)
    batch, channels = node.shape(source)[:2]
    if batch is None or channels is None:
        raise RefusedError("its output Indices is available for inputs of fixed sizes only: give shapes={...}")
    strides = [int(np.prod(image[n + 1 :])) for n in range(windows.rank)]
    if node.attribute("storage_order", 0):
        strides = [int(np.prod(image[:n])) for n in range(windows.rank)]
    counts = windows.counts(image)
    first: npt.NDArray[np.int64] = np.full(counts, -1)  # the first place of every window that is not in the padding
    places = []
    for offset in windows.offsets():
        position: npt.NDArray[np.int64] = np.zeros(counts, dtype=np.int64)
        inside = np.ones(counts, dtype=np.bool_)
        for n, (count, step) in enumerate(zip(counts, windows.strides, strict=True)):
            coordinate = np.arange(count) * step + offset[n] - windows.before[n]
            along = coordinate.reshape([-1 if d == n else 1 for d in range(len(counts))])
            position += along * strides[n]
            inside &= (along >= 0) & (along < image[n])
        places.append(position)
        first = np.where((first < 0) & inside, position, first)
    best, where = node.like(-np.inf, source), node.constant(first, np.int64)
    for tap, position in zip(_taps(node, image, windows, -np.inf), places, strict=True):
        better, here = node.op("Greater", tap, best), node.constant(position, np.int64)
        if node.is_float(source):  # NaN is the maximum, as in the output without places
            better = node.op("Or", better, node.op("IsNaN", tap))
        best, where = node.op("Where", better, tap, best), node.op("Where", better, here, where)
    plane = np.arange(batch * channels) * int(np.prod(image))
    planes = node.constant(plane.reshape(batch, channels, *[1] * windows.rank), np.int64)
    node.op("Add", where, planes, to=node.output(1))
    node.op("Identity", best, to=node.output(0) or node.fresh())


def _taps(node: Node, image: Sequence[int], windows: Windows, fill: float) -> Iterator[str]:
    """Emit, one after the other, the elements at one place of all windows on the first input."""
    value, axes = node.input(0), node.ints(*range(2, 2 + windows.rank))
    if any(windows.before + windows.after):
        pads = node.ints(0, 0, *windows.before, 0, 0, *windows.after)
        value = node.op("Pad", value, pads, node.like(fill, node.input(0)))
    steps = node.ints(*windows.strides)
    for offset in windows.offsets():
        ends = [o + (c - 1) * s + 1 for o, c, s in zip(offset, windows.counts(image), windows.strides, strict=True)]
        yield node.op("Slice", value, node.ints(*offset), node.ints(*ends), axes, steps)
