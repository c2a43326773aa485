"""Unique, whose number of results depends on data, and TfIdfVectorizer, which counts."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from numc.frontends.onnx.rewrites.node import Node, RefusedError

MAX_PAIRS = 2**24
"""The largest number of pairs of elements that Unique compares."""


def term_frequencies(node: Node) -> None:
    """TfIdfVectorizer, of which torch-mlir finds nothing where a size is free."""
    if None in node.shape(node.input(0)):
        raise RefusedError("it is available for tensors of fixed size only: give shapes={...} or --shape")
    node.copy()


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
    left, right = node.reshape(rows, [count, 1, width]), node.reshape(rows, [1, count, width])
    same, above = op("Equal", left, right), op("Greater", left, right)
    if node.is_float(source):  # all NaNs are one, behind the numbers
        nan, other = op("IsNaN", left), op("IsNaN", right)
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
