"""Loops that are not unrolled: how often they run, or how long their sequences are, is known only in a run.

The body is prepared as a model of its own (body.py), and the loop is written without what Scan has and Loop has not
(emit.py). Runs in the worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from numc.frontends.onnx.conditions.apply import CHECKS
from numc.frontends.onnx.loops.body import Body, Prepare, body_of
from numc.frontends.onnx.loops.emit import emit
from numc.frontends.onnx.rewrites.node import END, Node, RefusedError
from numc.frontends.onnx.rewrites.structure.control import LOOPS, check_axis, check_loop, condition_stays


def bodies_of(graph: onnx.GraphProto) -> dict[str, onnx.GraphProto]:
    """The bodies of the loops of a graph, copies by name of the node."""
    return {
        node.name: onnx.GraphProto.FromString(attribute.g.SerializeToString())
        for node in graph.node
        if node.op_type in LOOPS and node.domain in ("", "ai.onnx")
        for attribute in node.attribute
        if attribute.name == "body"
    }


def keep(
    node: Node, graph: onnx.GraphProto, opsets: Sequence[onnx.OperatorSetIdProto], prepare: Prepare
) -> Mapping[str, str]:
    """Emit a Loop or a Scan as one that is kept. graph: its body; opsets: of the nodes in that.

    Returns the words of messages for the nodes in the body. Raises RefusedError if it cannot be kept.
    """
    check_loop(node)
    body = body_of(node, graph, opsets, prepare)
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
    emit(node, ready, count=steps, start=start, axes=[0] * collected, backwards=[False] * collected)


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
    for axis, each in zip(along, ready.collected, strict=True):
        check_axis("scan_output_axes", axis, len(each.sizes) + 1)
    emit(
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
