"""Control flow, written without it: branches that are known are inlined, loops whose length is known are unrolled.

Both branches of an If whose condition is known only in a run are computed, and the results of one are taken.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from numc.frontends.onnx.reading.read import label
from numc.frontends.onnx.reading.structure import with_inner
from numc.frontends.onnx.reading.tensors import check_tensor
from numc.frontends.onnx.rewrites.node import END, Node, RefusedError, UnknownRankError
from numc.frontends.words import FIX_CONDITION

MAX_STEPS = 10_000
"""The largest number of steps of a loop."""
LOOPS = ("Loop", "Scan")
REFUSED = "numc.refused"
"""The attribute of a loop that can be neither unrolled nor kept (../../loops), with the reason."""
_NAMED = "numc.named"  # the name of a branch whose results are values of the graph around it


def branch(node: Node) -> None:
    """If."""
    condition = node.input(0)
    then, other = node.attribute("then_branch", None), node.attribute("else_branch", None)
    if condition in node.constants:
        inline(node, then if node.constants[condition].any() else other, {}, node.proto.output, "")
        return
    taken, otherwise = _named_results(then), _named_results(other)
    is_named = taken is not None and otherwise is not None
    # Loops have to be part of the graph before the conversion, after which none is kept.
    if not node.last and (is_named or not any(n.op_type in LOOPS for n in with_inner((*then.node, *other.node)))):
        raise RefusedError("its condition is computed")
    if taken is None or otherwise is None:
        # What the shapes of the results are becomes known when the branches are part of the graph.
        named = {}
        for graph, name in ((then, "then"), (other, "else")):
            values = [node.fresh() for _ in node.proto.output]
            inline(node, graph, {}, values, f"/{name}")
            named[f"{name}_branch"] = _naming(values)
        node.copy(**named)
        return
    for yes, no, to in zip(taken, otherwise, node.proto.output, strict=True):
        if to:
            _check_alike(node, yes, no, to)
            node.op("Where", node.op("Reshape", condition, node.ints()), yes, no, to=to)


def _naming(values: list[str]) -> onnx.GraphProto:
    """A branch whose results are these values of the graph around it."""
    results = [onnx.ValueInfoProto(name=f"{name}/result") for name in values]
    nodes = [onnx.helper.make_node("Identity", [name], [f"{name}/result"]) for name in values]
    return onnx.GraphProto(name=_NAMED, node=nodes, output=results)


def _named_results(graph: onnx.GraphProto) -> list[str] | None:
    """The values of `_naming`; None for another branch."""
    if graph.name != _NAMED or any(inner.op_type != "Identity" for inner in graph.node):
        return None
    return [inner.input[0] for inner in graph.node]


def _check_alike(node: Node, yes: str, no: str, to: str) -> None:
    """Raise RefusedError unless the results of two branches have one shape; sizes that are free, a run compares."""
    shapes = node.known_shape(yes), node.known_shape(no)
    if None in shapes:
        raise UnknownRankError(
            f"its condition is computed, and the rank of '{to}' is not known in both branches: {FIX_CONDITION}"
        )
    if shapes[0] != shapes[1]:
        yes_sizes, no_sizes = (
            ", ".join("free" if size is None else str(size) for size in shape or ()) for shape in shapes
        )
        raise RefusedError(
            f"its condition is computed, and a result has the shape [{yes_sizes}] in one branch and [{no_sizes}] in "
            f"the other: {FIX_CONDITION}"
        )


def _declared(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """The type and the sizes of a value; None unless all are known."""
    tensor_type = value.type.tensor_type
    if not tensor_type.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor_type.shape.dim):
        return None
    return (tensor_type.elem_type, *(dim.dim_value for dim in tensor_type.shape.dim))


def check_loop(node: Node) -> None:
    """Raise RefusedError unless the body and the attributes of a Loop or a Scan have as many values as it needs."""
    body: onnx.GraphProto = node.attribute("body", None)
    inputs, is_scan = len(node.proto.input), node.proto.op_type == "Scan"
    if len(body.input) != inputs:
        raise RefusedError(f"its body has {len(body.input)} inputs: want {inputs}, as many as it has itself")
    sequences = node.attribute("num_scan_inputs", 0) if is_scan else 2
    if is_scan and not 1 <= sequences <= inputs:
        raise RefusedError(f"its attribute num_scan_inputs is {sequences}: want 1 to {inputs}")
    states, first = inputs - sequences, 0 if is_scan else 1
    if len(body.output) < first + max(states, len(node.proto.output)):
        wanted = first + max(states, len(node.proto.output))
        raise RefusedError(f"its body has {len(body.output)} outputs: want {wanted} or more")
    for way, count in (("input", sequences), ("output", len(body.output) - states)) if is_scan else ():
        for what in ("axes", "directions"):
            values = node.attribute(f"scan_{way}_{what}", [0] * count)
            if len(values) != count:
                raise RefusedError(f"its attribute scan_{way}_{what} has {len(values)} numbers: want {count}")
    for name, axis in zip(node.proto.input[states:], node.attribute("scan_input_axes", []), strict=False):
        check_axis("scan_input_axes", axis, node.rank(name))


def check_axis(what: str, axis: int, rank: int) -> None:
    """Raise RefusedError unless an axis is one of a value of a rank. what: the attribute that has it."""
    if not -rank <= axis < rank:
        raise RefusedError(f"its attribute {what} has {axis}: want {-rank} to {rank - 1}")


def loop(node: Node) -> None:
    """Loop: the number of steps is a constant, or the condition becomes one while the loop is unrolled."""
    body: onnx.GraphProto = node.attribute("body", None)
    if reason := node.attribute(REFUSED, ""):
        raise RefusedError(reason)
    check_loop(node)
    count, condition = node.input(0), node.input(1)
    carried = list(node.proto.input[2:])
    if condition and condition not in node.constants:
        raise RefusedError("whether it goes on depends on data: only constants are available")
    going = not condition or bool(node.constants[condition].all())
    if count and count not in node.constants:
        raise RefusedError("the number of its steps depends on data: only constants are available")
    steps = int(node.constants[count].item()) if count else END
    stays = condition_stays(body)
    collected: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    step = 0
    while going and step < steps:
        if step >= MAX_STEPS:
            raise RefusedError(f"it has more than {MAX_STEPS} steps, which are too many to be unrolled")
        number = node.constant(step, np.int64)
        goes_on = condition or node.constant(True, np.bool_)
        bindings = dict(zip((value.name for value in body.input), (number, goes_on, *carried), strict=True))
        values = [node.fresh() for _ in body.output]
        inline(node, body, bindings, values, f"[{step}]")
        carried = values[1 : 1 + len(carried)]
        for parts, value in zip(collected, values[1 + len(carried) :], strict=True):
            parts.append(node.op("Unsqueeze", value, node.ints(0)))
        step += 1
        if not stays:  # the next step is decided when the condition is known
            _rest(node, body, count, steps=steps - step, condition=values[0], carried=carried, collected=collected)
            return
    for value, to in zip(carried, node.proto.output, strict=False):
        if to:
            node.op("Identity", value, to=to)
    for n, parts in enumerate(collected):
        _together(node, parts, body.output[1 + len(carried) + n], node.output(len(carried) + n))


def _rest(
    node: Node,
    body: onnx.GraphProto,
    count: str,
    steps: int,
    condition: str,
    carried: list[str],
    collected: list[list[str]],
) -> None:
    """Emit a loop of the steps that are left, and put what it collects behind the first."""
    left = node.constant(steps, np.int64) if count else ""
    results = [node.fresh() for _ in [*carried, *collected]]
    copy = node.copy()
    copy.name = f"{node.proto.name}+"  # another name for the next steps
    copy.input[:] = [left, condition, *carried]
    copy.output[:] = results
    for n, to in enumerate(node.proto.output):
        if not to:
            continue
        if n < len(carried):
            node.op("Identity", results[n], to=to)
        else:
            node.op("Concat", *collected[n - len(carried)], results[n], axis=0, to=to)


def condition_stays(body: onnx.GraphProto) -> bool:
    """Whether the condition of a loop is true after every step if it was before."""
    made = {name: inner for inner in body.node for name in inner.output}
    name = body.output[0].name
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    if name == body.input[1].name:
        return True
    values = [numpy_helper.to_array(tensor) for tensor in body.initializer if tensor.name == name]
    if name in made and made[name].op_type == "Constant":
        values = [numpy_helper.to_array(a.t) for a in made[name].attribute if a.name == "value"]
    return bool(values) and bool(values[0].all())


def _together(node: Node, parts: list[str], declared: onnx.ValueInfoProto, to: str) -> None:
    """Emit what a loop collects in its steps, as one value."""
    if not to:
        return
    if parts:
        node.op("Concat", *parts, axis=0, to=to)
        return
    shape = _declared(declared)
    if shape is None:
        raise RefusedError(f"it has no steps, and the shape of '{declared.name}' is not known")
    empty = np.zeros((0, *shape[1:]), onnx.helper.tensor_dtype_to_np_dtype(shape[0]))
    node.op("Identity", node.constant(empty, empty.dtype), to=to)


def scan(node: Node) -> None:
    """Scan: the sequences have a fixed length."""
    body: onnx.GraphProto = node.attribute("body", None)
    if reason := node.attribute(REFUSED, ""):
        raise RefusedError(reason)
    check_loop(node)
    count = node.attribute("num_scan_inputs", 1)
    states = list(node.proto.input[: len(node.proto.input) - count])
    sequences = list(node.proto.input[len(states) :])
    axes = [axis % node.rank(name) for axis, name in
            zip(node.attribute("scan_input_axes", [0] * count), sequences, strict=True)]  # fmt: skip
    backwards = node.attribute("scan_input_directions", [0] * count)
    lengths = {node.shape(name)[axis] for name, axis in zip(sequences, axes, strict=True)}
    if len(lengths) != 1 or None in lengths:
        raise RefusedError("its sequences have no fixed common length: give shapes={...} or --shape")
    length = next(size for size in lengths if size is not None)
    if not 0 < length <= MAX_STEPS:
        raise RefusedError(f"its sequences have {length} elements, and 1 to {MAX_STEPS} are available")
    collected: list[list[str]] = [[] for _ in body.output[len(states) :]]
    outputs = len(collected)
    along = node.attribute("scan_output_axes", [0] * outputs)
    reverse = node.attribute("scan_output_directions", [0] * outputs)
    for step in range(length):
        elements = []
        for name, axis, back in zip(sequences, axes, backwards, strict=True):
            where = length - 1 - step if back else step
            elements.append(node.op("Gather", name, node.constant(where, np.int64), axis=axis))
        bindings = dict(zip((value.name for value in body.input), (*states, *elements), strict=True))
        values = [node.fresh() for _ in body.output]
        inline(node, body, bindings, values, f"[{step}]")
        states = values[: len(states)]
        for parts, value, axis in zip(collected, values[len(states) :], along, strict=True):
            parts.append(node.op("Unsqueeze", value, node.ints(axis)))
    for value, to in zip(states, node.proto.output, strict=False):
        if to:
            node.op("Identity", value, to=to)
    for n, parts in enumerate(collected):
        if to := node.output(len(states) + n):
            node.op("Concat", *(reversed(parts) if reverse[n] else parts), axis=along[n], to=to)


def inline(node: Node, graph: onnx.GraphProto, given: Mapping[str, str], outputs: list[str], where: str) -> None:
    """Emit the nodes of a subgraph. given: the values of its inputs. where: follows the node's name in theirs."""
    names = dict(given)
    for tensor in graph.initializer:
        check_tensor(tensor, f"initialiser '{tensor.name}'")
        value = numpy_helper.to_array(tensor)
        names[tensor.name] = node.constant(value, value.dtype)
    wanted = [(value.name, to) for value, to in zip(graph.output, outputs, strict=True)]
    for inner in graph.node:
        for name in filter(None, inner.output):
            names[name] = node.fresh()
    for number, inner in enumerate(graph.node):
        copy = onnx.NodeProto.FromString(inner.SerializeToString())
        copy.name = f"{node.proto.name}{where}/{label(inner) or number}"
        rename(copy, names)
        node.made.append(copy)
    for name, to in wanted:
        node.op("Identity", names.get(name, name), to=to)


def rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename the values of a node, and those that its subgraphs read from outside."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            outer = {name: to for name, to in names.items() if name not in own}
            for inner in graph.node:
                rename(inner, outer)
            for output in graph.output:
                output.name = outer.get(output.name, output.name)
