"""Convolutions whose taps are moved: the moved elements are interpolated, and the rest is a product of matrices."""

from __future__ import annotations

import itertools

import numpy as np

from numc.frontends.onnx.rewrites.images.convolutions import convolved
from numc.frontends.onnx.rewrites.images.resize import Sampler
from numc.frontends.onnx.rewrites.node import Node, RefusedError


def deform_conv(node: Node) -> None:
    """DeformConv of images of fixed size."""
    source, weight, offset, bias, mask = (node.input(n) for n in range(5))
    shape, kernel, placed = node.shape(source), node.shape(weight), node.shape(offset)
    if len(shape) != 4 or len(kernel) != 4 or None in (*shape[1:], *kernel, *placed[1:]):
        raise RefusedError("it is available for images of two dimensions and of fixed size only: give shapes={...}")
    windows = convolved(node)
    assert windows is not None
    _, channels, height, width = (size or 0 for size in shape)
    outputs, depth, *window = (size or 0 for size in kernel)
    places = windows.counts([height, width])
    groups, moved = node.attribute("group", 1), node.attribute("offset_group", 1)
    taps, count = window[0] * window[1], places[0] * places[1]
    if moved < 1 or channels % moved:
        raise RefusedError(f"its offset_group is {moved}, which does not divide its {channels} channels")
    for name, what, wide in ((offset, "offsets", 2), (mask, "masks", 1)):
        wanted, actual = [wide * moved * taps, *places], node.shape(name)[1:] if name else []
        if name and any(size not in (None, want) for size, want in zip(actual, wanted, strict=True)):
            raise RefusedError(f"its {what} '{name}' have sizes {actual} for an image: {wanted} are needed")
    batch = node.size(source, 0)
    offsets = node.reshape(offset, [batch, moved, taps, 2, count])
    along = []
    for n, length in enumerate((height, width)):
        grid = np.indices(window)[n].reshape(-1, 1) * windows.dilations[n]
        start = np.indices(places)[n].reshape(1, -1) * windows.strides[n] - windows.before[n]
        displacement = node.op("Gather", offsets, node.constant(n, np.int64), axis=3)
        coordinate = node.op("Add", displacement, node.constant(grid + start, np.float32))
        along.append(Sampler(node, "zeros", True).at(node.reshape(coordinate, [batch, moved, 1, taps * count]), length))
    flat = node.reshape(source, [batch, moved, channels // moved, height * width])
    sizes = node.list_of([batch, moved, channels // moved, taps * count])
    total = ""
    for y, x in itertools.product(*along):
        index = node.op("Add", node.op("Mul", y.index, node.constant(width, np.int64)), x.index)
        value = node.op("GatherElements", flat, node.op("Expand", index, sizes), axis=3)
        value = node.op("Where", node.op("And", y.inside, x.inside), value, node.like(0, source))
        value = node.op("Mul", value, node.op("Mul", y.factor, x.factor))
        total = node.op("Add", total, value) if total else value
    if mask:
        total = node.op("Mul", total, node.reshape(mask, [batch, moved, 1, taps * count]))
    columns = node.reshape(total, [batch, groups, depth * taps, count])
    rows = node.reshape(weight, [groups, outputs // groups, depth * taps])
    product = node.reshape(node.op("MatMul", rows, columns), [batch, outputs, *places], "" if bias else node.output(0))
    if bias:
        node.op("Add", product, node.reshape(bias, [1, outputs, 1, 1]), to=node.output(0))
