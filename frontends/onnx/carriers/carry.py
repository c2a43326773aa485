"""ONNX graphs on types that are carried in others (carried.py), as graphs that compute in the carriers.

A node reads its operands in the carrier and computes in it, and its result is brought back into its type once. The
inputs and the outputs of the model keep the bits of their types.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from numc.frontends.onnx.carriers import unsigned
from numc.frontends.onnx.carriers.carried import CARRIED, Emitter, Integer, Narrow
from numc.frontends.onnx.reading.read import origin
from numc.support.errors import NumcError

Array = npt.NDArray[np.generic]
# Nodes whose results are values that their operands have.
_MOVES = frozenset(
    (
        *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
        *("MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose"),
        *("Unique", "Unsqueeze", "Where", "If", "Loop", "Scan"),
    )
)
_EXACT = _MOVES | {"Abs", "Neg", "Relu"}
_WIDE = "/wide"
"""What follows the name of an input or an output in that of its carrier."""
_TYPES = ("to", "dtype")
"""Attributes that name a type."""
_QUANTISED = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))
_UINT64 = CARRIED[TensorProto.UINT64]


def in_carriers(
    graph: onnx.GraphProto, constants: MutableMapping[str, Array], opset: int, inferred: onnx.GraphProto
) -> dict[str, str]:
    """Let a graph compute in carriers; constants: by name, which become such.

    inferred: the graph with the types of all values. Returns the dtypes of the inputs and outputs that have
    other types now. Raises NumcError for a node that cannot compute with values of its types.
    """
    if not any(number in CARRIED for number in _types(graph, constants)):
        return {}
    types = dict(_typed(inferred))
    carried = {name: number for name, number in types.items() if number in CARRIED}
    for node in graph.node:
        # An operator that onnx does not know gives what it takes.
        taken = next((carried[name] for name in node.input if name in carried), None)
        if taken is not None and isinstance(CARRIED[taken], Narrow):
            carried |= {name: taken for name in node.output if name and not types.get(name)}
    names = {*types, *carried, *constants, *(name for node in graph.node for name in (*node.input, *node.output))}
    emit = Emitter(constants, types, names, opset)
    for name, value in constants.items():
        number = int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
        if number in CARRIED:
            constants[name] = CARRIED[number].constant(value)
    inputs = [value for value in graph.input if value.name in carried and value.name not in constants]
    outputs = [value for value in graph.output if value.name in carried]
    ends = {value.name: value for value in (*inputs, *outputs)}
    wide = {name: _fresh(name + _WIDE, names) for name in ends}
    for name in constants.keys() & {value.name for value in outputs}:
        constants[wide[name]] = constants.pop(name)
    for value in inputs:
        emit.base = value.name
        CARRIED[carried[value.name]].read(emit, value.name, wide[value.name])
    _carry(graph, emit, carried, wide)
    input_names = {value.name for value in inputs}
    for name in (value.name for value in outputs if value.name not in input_names):
        emit.base = name
        CARRIED[carried[name]].written(emit, wide[name], name)
    del graph.node[:]
    graph.node.extend(emit.nodes)
    for value in ends.values():
        value.type.tensor_type.elem_type = CARRIED[carried[value.name]].storage
    return {name: CARRIED[carried[name]].name for name in ends}


def as_given(message: str) -> str:
    """Return a message in which values of a model have the names that the model gives them."""
    return re.sub(rf"{_WIDE}\+*'", "'", message)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "+"
    taken.add(name)
    return name


def _types(graph: onnx.GraphProto, constants: Mapping[str, Array]) -> Iterator[int]:
    """The types that a graph mentions."""
    for value in graph.input:
        yield value.type.tensor_type.elem_type
    for constant in constants.values():
        yield onnx.helper.np_dtype_to_tensor_dtype(constant.dtype)
    for attribute in (a for node in graph.node for a in node.attribute):
        yield attribute.t.data_type
        if attribute.name in _TYPES:
            yield attribute.i
        for inner in (attribute.g, *attribute.graphs):
            yield from _types(inner, {})


def _typed(graph: onnx.GraphProto) -> Iterator[tuple[str, int]]:
    """The names and the types of the values of a graph and of those inside of it."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name, value.type.tensor_type.elem_type
    for tensor in graph.initializer:
        yield tensor.name, tensor.data_type
    for attribute in (a for node in graph.node for a in node.attribute):
        for inner in (attribute.g, *attribute.graphs):
            yield from _typed(inner)


def _carry(graph: onnx.GraphProto, emit: Emitter, carried: Mapping[str, int], wide: Mapping[str, str]) -> None:
    """Emit what the nodes of a graph become; wide: the names that take the places of others."""
    for node in graph.node:
        _check(node, carried)
        emit.origin, emit.base = origin(node), next(filter(None, node.output), node.name)
        results = {wide.get(name, name): carried[name] for name in node.output if name in carried}
        input_type = emit.types.get(node.input[0]) if node.input else None
        large = {wide.get(n, n) for n in (*node.input, *node.output) if carried.get(n) == TensorProto.UINT64}
        node.input[:] = [wide.get(name, name) for name in node.input]
        node.output[:] = [wide.get(name, name) for name in node.output]
        if node.op_type == "BitCast":
            _bit_cast(emit, node, carried, wide)
            continue
        cast = {
            a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name in ("saturate", "round_mode")
        }
        for attribute in node.attribute:
            _carry_attribute(attribute, emit, carried, wide)
        exact = _EXACT if all(isinstance(CARRIED[number], Narrow) for number in results.values()) else _MOVES
        computed = {} if node.op_type in exact else {name: emit.fresh() for name in results}
        node.output[:] = [computed.get(name, name) for name in node.output]
        long = _long(emit, node, input_type, results.values())
        if not long:
            _compute(emit, node, {computed.get(name, name) for name in large})
        for name, value in computed.items():
            saturate = node.op_type not in ("Cast", "CastLike") or bool(cast.get("saturate", 1))
            mode = cast.get("round_mode", b"up").decode()
            CARRIED[results[name]].stored(emit, long or value, name, saturate=saturate, mode=mode, wide=bool(long))


def _long(emit: Emitter, node: onnx.NodeProto, kind: int | None, results: Collection[int]) -> str:
    """Emit as float64 what a Cast makes a narrow float of, if float32 does not have all numbers of that type.

    It is rounded once then. Of other nodes there is nothing to emit: "".
    """
    if node.op_type not in ("Cast", "CastLike") or not any(CARRIED[n].carrier == TensorProto.FLOAT for n in results):
        return ""
    source = node.input[0]
    if kind in (TensorProto.INT64, TensorProto.UINT64):
        return unsigned.to_odd(emit, source, unsigned=kind == TensorProto.UINT64)
    if kind in (TensorProto.INT32, TensorProto.UINT32):
        return emit.cast(source, TensorProto.DOUBLE)
    return source if kind == TensorProto.DOUBLE else ""


def _compute(emit: Emitter, node: onnx.NodeProto, large: set[str]) -> None:
    """Emit a node that computes in carriers. large: those of its values that are unsigned numbers of 64 bits."""
    if large and node.op_type in unsigned.RULES:
        unsigned.RULES[node.op_type](emit, node, large)
    else:
        emit.nodes.append(node)


def _check(node: onnx.NodeProto, carried: Mapping[str, int]) -> None:
    for name in (*node.input, *node.output):
        carrier = CARRIED.get(carried.get(name, 0))
        if carrier is None:
            continue
        if isinstance(carrier, Narrow) and (
            node.op_type == "BitCast" or (node.op_type in _QUANTISED and carrier.name.startswith("float8"))
        ):
            raise NumcError(
                f"node '{origin(node)}' ({node.op_type}): its tensor '{name}' is {carrier.name}, which only Cast and "
                "operators that compute with its values take: convert it with Cast"
            )
        if carrier is _UINT64 and node.op_type not in unsigned.SAME and node.op_type not in unsigned.RULES:
            raise NumcError(
                f"node '{origin(node)}' ({node.op_type}): its tensor '{name}' is uint64, which it is not available "
                "for: convert it with Cast"
            )
        if isinstance(carrier, Integer) and node.op_type in _QUANTISED:
            raise NumcError(
                f"node '{origin(node)}' ({node.op_type}): its tensor '{name}' is {carrier.name}, and that is available "
                "outside of control flow only, where shapes are known"
            )


def _bit_cast(emit: Emitter, node: onnx.NodeProto, carried: Mapping[str, int], wide: Mapping[str, str]) -> None:
    """BitCast: between the bits of the types."""
    narrow = {wide.get(name, name): number for name, number in carried.items()}
    (source,), (result,) = node.input, node.output
    to = next(a.i for a in node.attribute if a.name == "to")
    bits = CARRIED[narrow[source]].written(emit, source) if source in narrow else source
    storage = CARRIED[to].storage if to in CARRIED else to
    name = emit.fresh() if to in CARRIED else result
    emit.op("BitCast", bits, to=name)
    emit.nodes[-1].attribute.append(onnx.helper.make_attribute("to", storage))
    if to in CARRIED:
        CARRIED[to].read(emit, name, result)


def _carry_attribute(
    attribute: onnx.AttributeProto, emit: Emitter, carried: Mapping[str, int], wide: Mapping[str, str]
) -> None:
    """Let an attribute that names a carried type, or holds a tensor or a graph of one, say the carrier."""
    if attribute.name in _TYPES and attribute.i in CARRIED:
        attribute.i = CARRIED[attribute.i].carrier
    _carry_tensor(attribute.t)
    for graph in (attribute.g, *attribute.graphs):
        inner = Emitter(emit.constants, emit.types, emit.taken, emit.opset)
        _carry(graph, inner, carried, wide)
        del graph.node[:], graph.value_info[:]
        graph.node.extend(inner.nodes)
        for value in (*graph.input, *graph.output):
            number = value.type.tensor_type.elem_type
            if number in CARRIED:
                value.type.tensor_type.elem_type = CARRIED[number].carrier
        for tensor in graph.initializer:
            _carry_tensor(tensor)
        for value in graph.output:
            value.name = wide.get(value.name, value.name)


def _carry_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in CARRIED:
        value = CARRIED[tensor.data_type].constant(numpy_helper.to_array(tensor))
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
