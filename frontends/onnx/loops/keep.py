"""Loops that are not unrolled: how often they run, or how long their sequences are, is known only in a run.

The body is prepared as a model of its own (body.py). Until all else is prepared, the loop is a node of a domain that no
rule knows, which reads what the body reads of the graph around it; write.py makes it a Loop again. What the steps give
is added to a tensor that they hand on. Runs in the worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, helper

from numc.frontends.onnx.conditions.apply import CHECKS
from numc.frontends.onnx.loops.body import Body, Collected, Prepare, Ready, body_of
from numc.frontends.onnx.rewrites.node import END, Node, RefusedError
from numc.frontends.onnx.rewrites.structure.control import condition_stays

DOMAIN = "numc.loops"
BODY, TYPES, READS = "body", "types", "reads"
"""Attributes of loops that are kept: the body as bytes, the types of the results, and the names that the body has for
the last inputs, which are values around it."""
_SCALAR = helper.make_tensor_type_proto(TensorProto.INT64, [])


@dataclass(frozen=True)
class _State:
    """What steps hand on: its value before the first one, its type, and its names before and after a step."""

    start: str
    kind: TypeProto
    before: str
    after: str


def keep(node: Node, opsets: Sequence[onnx.OperatorSetIdProto], prepare: Prepare) -> Mapping[str, str]:
    """Emit a Loop or a Scan as one that is kept. opsets: of the nodes in its body.

    Returns the words of messages for the nodes in the body. Raises RefusedError if it cannot be kept.
    """
    body = body_of(node, opsets, prepare)
    (_scan if node.proto.op_type == "Scan" else _loop)(node, body)
    return body.words


def _loop(node: Node, body: Body) -> None:
    body.number, body.true = (value.name for value in body.graph.input[:2])
    body.states = dict(zip((value.name for value in body.graph.input[2:]), node.proto.input[2:], strict=True))
    condition, *body.results = (value.name for value in body.graph.output)
    count, start = node.input(0), node.input(1)
    always = condition_stays(body.graph)
    if not count and always:
        raise RefusedError("it has no number of steps, and no step ends it")
    known = node.constants.get(start)
    if not always or (start and (known is None or not known.all())):
        body.condition = condition
    ready = body.prepared()
    collected = len(ready.collected)
    steps = node.op("Reshape", count, node.ints()) if count else node.constant(END, np.int64)
    _emit(node, ready, count=steps, start=start, axes=[0] * collected, backwards=[False] * collected)


def _scan(node: Node, body: Body) -> None:
    count = node.attribute("num_scan_inputs", 1)
    starts, sequences = list(node.proto.input[:-count]), list(node.proto.input[-count:])
    names = [value.name for value in body.graph.input]
    axes = [axis % node.rank(name) for axis, name in
            zip(node.attribute("scan_input_axes", [0] * count), sequences, strict=True)]  # fmt: skip
    backwards = node.attribute("scan_input_directions", [0] * count)
    body.number = "number#"
    body.states = dict(zip(names, starts, strict=False))
    body.results = [value.name for value in body.graph.output]
    outputs = len(body.results) - len(starts)
    sequences[0] = _as_long(node, sequences, axes)
    steps = node.list_of([node.size(node.proto.input[-count], axes[0])])
    last = node.op("Reshape", node.op("Sub", steps, node.ints(1)), node.ints())
    kinds = [node.type_of(name) for name in node.proto.input[-count:]]
    for name, sequence, kind, axis, back in zip(names[len(starts) :], sequences, kinds, axes, backwards, strict=True):
        body.take(name, sequence, kind, axis, last if back else "")
    ready = body.prepared()
    along = node.attribute("scan_output_axes", [0] * outputs)
    reverse = node.attribute("scan_output_directions", [0] * outputs)
    _emit(
        node,
        ready,
        count=node.op("Reshape", steps, node.ints()),
        start="",
        axes=[axis % (len(each.sizes) + 1) for axis, each in zip(along, ready.collected, strict=True)],
        backwards=[bool(back) for back in reverse],
    )


def _as_long(node: Node, sequences: Sequence[str], axes: Sequence[int]) -> str:
    """The first sequence, behind a check that the others are as long."""
    conditions = [
        (f"size(0, {axes[0]}) == size({n}, {axis})", f"sizes do not fit: '{name}' has another number of elements")
        for n, (name, axis) in enumerate(zip(sequences, axes, strict=True))
        if n
    ]
    if not conditions:
        return sequences[0]
    return node.op("Identity", sequences[0], *sequences, **{CHECKS: json.dumps(conditions)})


def _emit(node: Node, ready: Ready, *, count: str, start: str, axes: Sequence[int], backwards: Sequence[bool]) -> None:
    """Emit a loop.

    count: the largest number of steps. start: whether there is a first one, or "". axes: along which what the steps
    give is put together, and whether backwards.
    """
    graph, states = ready.graph, []
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
    starts = ready.starts
    states += [
        _State(starts[name], kind, name, after)
        for (name, kind), after in zip(ready.types.items(), ready.after, strict=True)
    ]
    states += [_collecting(node, ready, *each) for each in zip(ready.collected, backwards, strict=True)]
    graph.value_info.extend(value for value in graph.output if value.name not in ready.after)
    del graph.input[:], graph.output[:]
    graph.input.extend(
        [
            onnx.ValueInfoProto(name=number if is_counted else "number of the loop#", type=_SCALAR),
            helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []),
            *(onnx.ValueInfoProto(name=state.before, type=state.kind) for state in states),
        ]
    )
    graph.output.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))
    graph.output.extend(onnx.ValueInfoProto(name=state.after, type=state.kind) for state in states)
    results = [node.fresh() for _ in states]
    types = [ready.around(state.kind) for state in states]
    attributes = {BODY: graph.SerializeToString(), TYPES: types, READS: list(ready.reads)}
    inputs = [count, start, *(state.start for state in states), *ready.reads.values()]
    node.ops("Loop", inputs, results, domain=DOMAIN, **attributes)
    for n, value in enumerate(results if is_counted else results[1:]):
        axis = axes[n - len(ready.types)] if n >= len(ready.types) else 0
        if axis and node.output(n):
            rank = len(ready.collected[n - len(ready.types)].sizes) + 1
            node.transpose(value, *range(1, axis + 1), 0, *range(axis + 1, rank), to=node.output(n))
        elif node.output(n):
            node.op("Identity", value, to=node.output(n))


def _collecting(node: Node, ready: Ready, each: Collected, backwards: bool) -> _State:
    """The tensor to which every step adds what it gives."""
    sizes = [node.list_of([ready.size(size)]) for size in each.sizes]
    zero = node.constant(0, helper.tensor_dtype_to_np_dtype(each.dtype))
    start = node.op("Expand", zero, node.op("Concat", node.ints(0), *sizes, axis=0))
    before, shape = ready.fresh("collected"), [size if isinstance(size, int) else None for size in each.sizes]
    row = ready.add("Unsqueeze", [each.name, ready.read(node.ints(0))], each.dtype, [1, *shape])
    rows = [row, before] if backwards else [before, row]
    after = ready.add("Concat", rows, each.dtype, [None, *shape], axis=0)
    return _State(start, helper.make_tensor_type_proto(each.dtype, [None, *shape]), before, after)
