"""Sequences and optionals whose elements are known when the model is compiled, written without them.

What makes a sequence becomes a SequenceConstruct, whose inputs are its elements; it is dropped when nothing reads it
any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx

from numc.frontends.onnx.rewrites.node import Node, RefusedError
from numc.frontends.onnx.rewrites.structure.control import inline

_ONLY_KNOWN = "sequences are available where their length and the places in them are constants"


def _elements(node: Node, n: int) -> Sequence[str] | None:
    """The elements of the sequence that is an input; None if it is none that is known."""
    return node.sequences.get(node.input(n))


def _known(node: Node, n: int) -> Sequence[str]:
    elements = _elements(node, n)
    if elements is None:
        raise RefusedError(f"what is in the sequence '{node.input(n)}' depends on data: {_ONLY_KNOWN}")
    return elements


def _place(node: Node, n: int, length: int, default: int) -> int:
    """A place in a sequence, from 0."""
    position_input = node.constant_input(n, "position")
    position = default if position_input is None else int(position_input.item())
    if not -length <= position < max(length, default + 1):
        raise RefusedError(f"its position {position} is none of a sequence of {length} elements")
    return position + length if position < 0 else position


def empty(node: Node) -> None:
    """SequenceEmpty."""
    node.op("SequenceConstruct", to=node.output(0))


def insert(node: Node) -> None:
    """SequenceInsert."""
    elements = list(_known(node, 0))
    elements.insert(_place(node, 2, len(elements), len(elements)), node.input(1))
    node.op("SequenceConstruct", *elements, to=node.output(0))


def erase(node: Node) -> None:
    """SequenceErase."""
    elements = list(_known(node, 0))
    del elements[_place(node, 1, len(elements), len(elements) - 1)]
    node.op("SequenceConstruct", *elements, to=node.output(0))


def at(node: Node) -> None:
    """SequenceAt."""
    elements = _known(node, 0)
    node.op("Identity", elements[_place(node, 1, len(elements), -1)], to=node.output(0))


def length(node: Node) -> None:
    """SequenceLength."""
    node.op("Identity", node.constant(len(_known(node, 0)), np.int64), to=node.output(0))


def identity(node: Node) -> None:
    """Identity of a sequence."""
    elements = _elements(node, 0)
    if elements is not None:
        node.op("SequenceConstruct", *elements, to=node.output(0))


def concat(node: Node) -> None:
    """ConcatFromSequence."""
    elements, axis = list(_known(node, 0)), node.attribute("axis", 0)
    if not elements:
        raise RefusedError("its sequence has no elements")
    if node.attribute("new_axis", 0):
        elements = [node.op("Unsqueeze", element, node.ints(axis)) for element in elements]
    node.op("Concat", *elements, axis=axis, to=node.output(0))


def split(node: Node) -> None:
    """SplitToSequence along a dimension of fixed size."""
    source, parts = node.input(0), node.constant_input(1, "split")
    axis = node.axis(node.rank(source), 0)
    size = node.shape(source)[axis]
    if size is None:
        raise RefusedError("it is available along dimensions of fixed size only: give shapes={...} or --shape")
    if parts is not None and parts.ndim:
        sizes = [int(part) for part in parts]
    else:
        part = 1 if parts is None else int(parts.item())
        if part < 1:
            raise RefusedError(f"its parts have size {part}: sizes start at 1")
        sizes = [min(part, size - start) for start in range(0, size, part)]
    if sum(sizes) != size:
        raise RefusedError(f"its parts {sizes} do not add up to {size}")
    ends = np.cumsum([0, *sizes])
    elements = [node.cut(source, axis, int(a), int(b)) for a, b in itertools.pairwise(ends)]
    if parts is None and not node.attribute("keepdims", 1):
        elements = [node.op("Squeeze", element, node.ints(axis)) for element in elements]
    node.op("SequenceConstruct", *elements, to=node.output(0))


def over_elements(node: Node) -> None:
    """SequenceMap: its graph is inlined for each element."""
    body: onnx.GraphProto = node.attribute("body", None)
    count = len(_known(node, 0))
    taken = [_elements(node, n) for n in range(len(node.proto.input))]
    results: list[list[str]] = [[] for _ in node.proto.output]
    for step in range(count):
        operands = [node.input(n) if elements is None else elements[step] for n, elements in enumerate(taken)]
        values = [node.fresh() for _ in results]
        inline(node, body, dict(zip((value.name for value in body.input), operands, strict=True)), values, f"[{step}]")
        for parts, value in zip(results, values, strict=True):
            parts.append(value)
    for parts, to in zip(results, node.proto.output, strict=True):
        node.op("SequenceConstruct", *parts, to=to)


def optional(node: Node) -> None:
    """Optional of a value: the value. One that holds nothing stays, for what asks for it."""
    if node.input(0):
        _same(node)


def get_element(node: Node) -> None:
    """OptionalGetElement."""
    if node.input(0) in node.nothing:
        raise RefusedError("its optional holds nothing")
    _same(node)


def has_element(node: Node) -> None:
    """OptionalHasElement."""
    there = bool(node.input(0)) and node.input(0) not in node.nothing
    node.op("Identity", node.constant(there, np.bool_), to=node.output(0))


def _same(node: Node) -> None:
    elements = _elements(node, 0)
    if elements is None:
        node.op("Identity", node.input(0), to=node.output(0))
    else:
        node.op("SequenceConstruct", *elements, to=node.output(0))
