"""A loop that is kept, as a node of a domain that no rule knows until all else is prepared (write_loops.py writes it).

It reads what its body reads of the graph around it. What the steps give is added to a tensor that they hand on. Runs in
the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, helper

from numc.frontends.onnx.loops.body import Collected, Ready
from numc.frontends.onnx.rewrites.node import Node

DOMAIN = "numc.loops"
BODY, TYPES, READS = "body", "types", "reads"
"""Attributes of such a node: the body as bytes, the types of the results, and the names that the body has for the last
inputs, which are values around it."""
_SCALAR = helper.make_tensor_type_proto(TensorProto.INT64, [])


@dataclass(frozen=True)
class _State:
    """A value that steps hand on: what it is before the first one, its type, its names before and after a step."""

    start: str
    kind: TypeProto
    before: str
    after: str


_Together = Callable[[Sequence[str], str], str]
"""Emits what the steps give, as one value, from what states have become, and from the number of steps."""


def emit(node: Node, ready: Ready, *, count: str, start: str, axes: Sequence[int], backwards: Sequence[bool]) -> None:
    """Emit a loop.

    count: the largest number of steps. start: whether there is a first one, or "". axes: along which what the steps
    give is put together, and whether backwards.
    """
    graph, states = ready.graph, list[_State]()
    number, goes_on = graph.input[0].name, "goes on#"
    if is_counted := not (ready.condition or ready.is_growing):
        start, condition = "", goes_on
    else:
        # MLIR gives what a counted loop hands on one size, and torch-mlir does not count the steps of another.
        following = ready.add("Add", [number, ready.read(node.constant(1, np.int64))], TensorProto.INT64, [])
        condition = ready.add("Less", [following, ready.read(count)], TensorProto.BOOL, [])
        if ready.condition:
            condition = ready.add("And", [ready.condition, condition], TensorProto.BOOL, [])
        some = node.op("Greater", count, node.constant(0, np.int64))
        start = node.op("And", node.op("Reshape", start, node.ints()), some) if start else some
        states.append(_State(node.constant(0, np.int64), _SCALAR, number, following))
    own = [
        _State(ready.starts[name], kind, name, after)
        for (name, kind), after in zip(ready.types.items(), ready.after, strict=True)
    ]
    collecting = [_collecting(node, ready, *each) for each in zip(ready.collected, backwards, strict=True)]
    states += [*own, *(state for more, _ in collecting for state in more)]
    ends = {number if is_counted else "number of the loop#": TensorProto.INT64, goes_on: TensorProto.BOOL}
    _end(graph, states, ends=ends, condition=condition, after=ready.after)
    results = [node.fresh() for _ in states]
    attributes = {
        BODY: graph.SerializeToString(),
        TYPES: [ready.around(state.kind) for state in states],
        READS: list(ready.reads),
    }
    inputs = [count, start, *(state.start for state in states), *ready.reads.values()]
    node.ops("Loop", inputs, results, domain=DOMAIN, **attributes)
    done = "" if is_counted else results.pop(0)
    for n, _ in enumerate(own):
        value = results.pop(0)
        if node.output(n):
            node.op("Identity", value, to=node.output(n))
    for n, (axis, each, (more, together)) in enumerate(zip(axes, ready.collected, collecting, strict=True), len(own)):
        parts = [results.pop(0) for _ in more]
        if node.output(n):
            order = [*range(1, axis + 1), 0, *range(axis + 1, len(each.sizes) + 1)]
            node.transpose(together(parts, done), *order, to=node.output(n))


def _end(
    graph: onnx.GraphProto, states: Sequence[_State], *, ends: Mapping[str, int], condition: str, after: Sequence[str]
) -> None:
    """Give the graph of a body the inputs and the outputs that a Loop has.

    ends: the types of the number of a step, and of whether there is one. condition: whether there is another step.
    after: results that become outputs.
    """
    graph.value_info.extend(value for value in graph.output if value.name not in after)
    del graph.input[:], graph.output[:]
    graph.input.extend(helper.make_tensor_value_info(name, dtype, []) for name, dtype in ends.items())
    graph.input.extend(onnx.ValueInfoProto(name=state.before, type=state.kind) for state in states)
    graph.output.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))
    graph.output.extend(onnx.ValueInfoProto(name=state.after, type=state.kind) for state in states)


def _collecting(node: Node, ready: Ready, each: Collected, backwards: bool) -> tuple[list[_State], _Together]:
    """The tensors to which every step adds what it gives, and how they become one value."""
    before, dtype = ready.fresh("collected"), helper.tensor_dtype_to_np_dtype(each.dtype)
    if is_known := all(isinstance(size, int) or size in ready.lasting for size in each.sizes):
        sizes = [node.list_of([ready.size(size)]) for size in each.sizes]
        shape: list[int | None] = [size if isinstance(size, int) else None for size in each.sizes]
        start = node.op("Expand", node.constant(0, dtype), node.op("Concat", node.ints(0), *sizes, axis=0))
        row = ready.add("Unsqueeze", [each.name, ready.read(node.ints(0))], each.dtype, [1, *shape])
    else:  # all elements one after another, and the sizes of the last step, which are those of every one
        start, shape = node.constant(np.zeros(0), dtype), []
        row = ready.add("Reshape", [each.name, ready.read(node.ints(-1))], each.dtype, [None])
    after = ready.add("Concat", [row, before] if backwards else [before, row], each.dtype, [None, *shape], axis=0)
    states = [_State(start, helper.make_tensor_type_proto(each.dtype, [None, *shape]), before, after)]
    if is_known:
        return states, lambda parts, _: parts[0]
    rank = len(each.sizes)
    last, known = ready.fresh("sizes"), ready.add("Shape", [each.name], TensorProto.INT64, [rank])
    kind = helper.make_tensor_type_proto(TensorProto.INT64, [rank])
    states.append(_State(node.ints(*[0] * rank), kind, last, known))

    def together(parts: Sequence[str], done: str) -> str:
        flat, sizes = parts
        dims = [size if isinstance(size, int) else node.cut(sizes, 0, n, n + 1) for n, size in enumerate(each.sizes)]
        return node.reshape(flat, [node.op("Reshape", done, node.ints(1)), *dims])

    return states, together
