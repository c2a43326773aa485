"""Operators of which the number of results depends on data: Unique and NonMaxSuppression."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node, RefusedError

MAX_PAIRS = 2**24
"""The largest number of pairs of elements that Unique compares."""
MAX_BOXES = 1024
"""The largest number of boxes for which NonMaxSuppression of several classes or images is unrolled."""


def unique(node: Node) -> None:
    """Unique: every element, or slice along an axis, is compared with every other."""
    source, axis = node.input(0), node.attribute("axis", None)
    shape = node.shape(source)
    if None in shape:
        raise RefusedError("it is available for tensors of fixed size only: give shapes={...} or --shape")
    sizes = [size for size in shape if size is not None]
    if axis is None:
        rows, count, width = node.reshape(source, [-1, 1]), int(np.prod(sizes)), 1
    else:
        axis = node.axis(len(sizes), 0)
        order = [axis, *(d for d in range(len(sizes)) if d != axis)]
        count, width = sizes[axis], int(np.prod(sizes)) // max(sizes[axis], 1)
        rows = node.reshape(node.transpose(source, *order), [count, width])
    if count * count * width > MAX_PAIRS or not count * width:
        raise RefusedError(f"it compares {count} elements of {width} numbers with each other: at most {MAX_PAIRS} "
                           "numbers, and at least one, are available")  # fmt: skip
    op, long = node.op, TensorProto.INT64
    one, two = node.reshape(rows, [count, 1, width]), node.reshape(rows, [1, count, width])
    same, above = op("Equal", one, two), op("Greater", one, two)
    if node.is_float(source):  # all NaNs are one, behind the numbers
        nan, other = op("IsNaN", one), op("IsNaN", two)
        same = op("Or", same, op("And", nan, other))
        above = op("Or", above, op("And", nan, op("Not", other)))
    differs = node.cast(op("Not", same), long)
    first = op("ArgMax", differs, axis=2, keepdims=1)  # the first place in which two differ
    equal = op("Equal", op("ReduceMax", differs, node.ints(2), keepdims=0), node.constant(0, np.int64))
    above = op("GatherElements", node.cast(above, long), first, axis=2)
    above = op("And", op("Greater", node.reshape(above, [count, count]), node.constant(0, np.int64)), op("Not", equal))
    leader = op("ArgMax", node.cast(equal, long), axis=1, keepdims=0)  # the first that equals each
    leads = op("Equal", leader, node.steps(count))
    places = node.reshape(op("NonZero", leads), [-1])
    if node.attribute("sorted", 1):
        counted = op("And", above, node.reshape(leads, [1, count]))
        rank = op("ReduceSum", node.cast(counted, long), node.ints(1), keepdims=0)
        where = op("Gather", rank, places, axis=0)
        places = op("ScatterElements", op("Sub", places, places), where, places, axis=0)
    else:
        before = op("CumSum", node.cast(leads, long), node.constant(0, np.int64))
        rank = op("Gather", op("Sub", before, node.constant(1, np.int64)), leader, axis=0)
    if node.output(1):
        op("Identity", places, to=node.output(1))
    if node.output(2):
        op("Identity", rank, to=node.output(2))
    if node.output(3):
        each = op("ReduceSum", node.cast(equal, long), node.ints(1), keepdims=0)
        op("Gather", each, places, axis=0, to=node.output(3))
    if node.output(0):
        whole = node.reshape(source, [-1]) if axis is None else source
        op("Gather", whole, places, axis=axis or 0, to=node.output(0))


def non_max_suppression(node: Node) -> None:
    """NonMaxSuppression of several classes or images, or with a score threshold: torch-mlir has one of each."""
    boxes, scores = node.input(0), node.input(1)
    batch, classes, count = node.shape(scores)
    threshold = node.input(4)
    if (batch, classes) == (1, 1) and not threshold:
        return
    most = node.constant_input(2, "max_output_boxes_per_class")
    steps = 0 if most is None else int(most.item())
    if count is None or batch is None or classes is None:
        raise RefusedError("it is available for boxes and scores of fixed sizes only: give shapes={...} or --shape")
    steps = min(steps, count)
    if not 0 < steps <= MAX_BOXES:
        raise RefusedError(f"it selects up to {steps} boxes of a class: 1 to {MAX_BOXES} are available for several "
                           "classes or images, or with a score threshold")  # fmt: skip
    op, least = node.op, node.constant(-np.inf, np.float32)
    low, high = _corners(node, boxes)
    area = op("Mul", *(op("Sub", b, a) for a, b in zip(low, high, strict=True)))
    left = scores
    if threshold:
        left = op("Where", op("Greater", scores, node.op("Reshape", threshold, node.ints())), scores, least)
    limit = node.op("Reshape", node.input(3), node.ints()) if node.input(3) else node.constant(0, np.float32)
    wide = node.ints(batch, classes, count)
    every = [op("Expand", value, wide) for value in (*low, *high, area)]
    chosen, valid = [], []
    zero = node.constant(0, np.float32)
    for _ in range(steps):
        best = op("ArgMax", left, axis=2, keepdims=1)
        chosen.append(best)
        valid.append(op("Greater", op("GatherElements", left, best, axis=2), least))
        y0, x0, y1, x1, size = (op("GatherElements", value, best, axis=2) for value in every)
        height = op("Max", op("Sub", op("Min", y1, high[0]), op("Max", y0, low[0])), zero)
        width = op("Max", op("Sub", op("Min", x1, high[1]), op("Max", x0, low[1])), zero)
        common = op("Mul", height, width)
        union = op("Sub", op("Add", size, area), common)
        # No quotient: boxes may have no area.
        overlaps = op("And", op("Greater", common, op("Mul", union, limit)), op("Greater", common, zero))
        taken = op("Or", overlaps, op("Equal", node.steps(count), best))
        left = op("Where", taken, least, left)
    places = node.transpose(op("NonZero", op("Concat", *valid, axis=2)), 1, 0)
    numbers = op("GatherND", op("Concat", *chosen, axis=2), places)
    which = node.cut(places, 1, 0, 2)
    op("Concat", which, node.reshape(numbers, [-1, 1]), axis=1, to=node.output(0))


def _corners(node: Node, boxes: str) -> tuple[list[str], list[str]]:
    """Emit the least and the largest y and x of boxes, of the shape [batch, 1, count]."""
    parts = [node.op("Gather", node.op("Unsqueeze", boxes, node.ints(1)), node.constant(n, np.int64), axis=3)
             for n in range(4)]  # fmt: skip
    if node.attribute("center_point_box", 0):
        x, y, width, height = parts
        half = node.constant(2, np.float32)
        ends = [(middle, node.op("Div", size, half)) for middle, size in ((y, height), (x, width))]
        pairs = [(node.op("Sub", a, b), node.op("Add", a, b)) for a, b in ends]
    else:
        pairs = [(parts[0], parts[2]), (parts[1], parts[3])]
    return [node.op("Min", *pair) for pair in pairs], [node.op("Max", *pair) for pair in pairs]
