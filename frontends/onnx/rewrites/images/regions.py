"""RoiAlign: regions of images."""

from __future__ import annotations

import itertools

import numpy as np
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node, RefusedError


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
    dtype = np.float64 if node.dtype(regions) == TensorProto.DOUBLE else np.float32
    scale = node.constant(node.attribute("spatial_scale", 1.0), dtype)
    image = node.shape(source)[2:]
    channels = node.size(source, 1)
    counts = node.size(regions, 0), node.size(numbers, 0)
    count = min(counts, key=lambda size: isinstance(size, str))  # one that is fixed, if there is any
    height, width = image
    if height is None or width is None:
        raise RefusedError("it is available for images of fixed sizes only: give shapes={...} or --shape")
    op = node.op

    def number(value: float) -> str:
        return node.constant(value, dtype)

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
        places.append((op("Add", start, op("Mul", span, node.constant(steps[None, :], dtype))), size))
    (y, _), (x, _) = places
    rows, columns = bins[0] * samples, bins[1] * samples
    y = op("Expand", node.reshape(y, [count, rows, 1]), node.list_of([count, rows, columns]))
    x = op("Expand", node.reshape(x, [count, 1, columns]), node.list_of([count, rows, columns]))
    inside = ""
    tables = []
    for coordinate, size in ((y, height), (x, width)):
        here = op("And", op("GreaterOrEqual", coordinate, number(-1)), op("LessOrEqual", coordinate, number(size)))
        inside = op("And", inside, here) if inside else here
        bounded = op("Min", op("Where", op("Greater", coordinate, number(0)), coordinate, number(0)), number(size - 1))
        low = op("Floor", bounded)
        ratio = op("Sub", bounded, low)
        high = op("Min", op("Add", low, number(1)), number(size - 1))
        tables.append([(low, op("Sub", number(1), ratio)), (high, ratio)])
    flat = node.transpose(node.reshape(source, [node.size(source, 0), channels, height * width]), 0, 2, 1)
    flat = node.reshape(flat, [node.product(node.size(source, 0), height * width), channels])
    first = op("Mul", node.cast(numbers, 7), node.constant(height * width, np.int64))
    first = node.reshape(first, [count, 1, 1])
    values = []
    for (row, row_weight), (column, column_weight) in itertools.product(*tables):
        index = node.cast(op("Add", op("Mul", row, number(width)), column), 7)
        element = op("Gather", flat, op("Add", first, index), axis=0)
        factor = op("Where", inside, op("Mul", row_weight, column_weight), number(0))
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
