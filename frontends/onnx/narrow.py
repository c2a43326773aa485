"""ONNX graphs on narrow tensors (bfloat16, float16, float8) as graphs that compute in float32.

A node reads its operands widened, computes in float32, and its result is rounded to its type once: a Cast to the type
and a Cast back. The inputs and the outputs of the model keep their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from numc.compiler.arithmetic.dtypes import NARROW
from numc.compiler.support.errors import NumcError
from numc.frontends.onnx.read import label

Array = npt.NDArray[np.generic]
NARROW_TYPES: Mapping[int, str] = {
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    onnx.TensorProto.FLOAT8E5M2: "float8_e5m2",
}
_WIDE = onnx.TensorProto.FLOAT
# Nodes whose results are values that their operands have.
_EXACT = frozenset(
    (
        *("Abs", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
        *("MaxPool", "Neg", "Relu", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose"),
        *("Unsqueeze", "Where", "If", "Loop", "Scan"),
    )
)
# The largest number of float8e5m2, and the largest one that rounds to the largest number of float8e4m3fn.
_MOST_E5M2, _ROUNDS_TO_MOST_E4M3 = np.float32(57344), np.float32(464)
_TYPES = ("to", "dtype")
"""Attributes that name a type."""
_OF_BITS = frozenset(("BitCast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))


def in_float32(
    graph: onnx.GraphProto, constants: MutableMapping[str, Array], inferred: Callable[[], onnx.GraphProto]
) -> None:
    """Let a graph compute in float32 and round what is narrow; constants: by name, which become float32.

    inferred: returns the graph with the types of all values. Raises NumcError for a node that takes a float8 tensor for
    more than its values.
    """
    if not any(_is_narrow(number) for number in _types(graph, constants)):
        return
    types = dict(_typed(inferred()))
    narrow = {name: number for name, number in types.items() if _is_narrow(number)}
    for node in graph.node:
        # An operator that onnx does not know gives what it takes.
        taken = next((narrow[name] for name in node.input if name in narrow), None)
        if taken is not None:
            narrow |= {name: taken for name in node.output if name and not types.get(name)}
    for name, value in constants.items():
        if value.dtype.name in NARROW:
            constants[name] = value.astype(np.float32)
    inputs = [value.name for value in graph.input if value.name in narrow and value.name not in constants]
    outputs = [value.name for value in graph.output if value.name in narrow]
    wide = {name: f"{name}/float32" for name in (*inputs, *outputs)}
    for name in constants.keys() & set(outputs):
        constants[wide[name]] = constants.pop(name)
    casts = [_cast(name, wide[name], _WIDE) for name in inputs]
    _widen(graph, narrow, wide, constants)
    casts += graph.node
    casts += [_cast(wide[name], name, narrow[name]) for name in outputs if name not in inputs]
    del graph.node[:]
    graph.node.extend(casts)


def _is_narrow(number: int) -> bool:
    return number in NARROW_TYPES


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


def _cast(value: str, result: str, to: int) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [value], [result], name=result, to=to)


def _widen(
    graph: onnx.GraphProto,
    narrow: Mapping[str, int],
    wide: Mapping[str, str],
    constants: MutableMapping[str, Array],
) -> None:
    """Change the nodes of a graph, and of those inside of it; wide: the names that take the places of others."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        _check(node, narrow)
        results = {name: narrow[name] for name in node.output if name in narrow}
        node.input[:] = [wide.get(name, name) for name in node.input]
        node.output[:] = [wide.get(name, name) for name in node.output]
        for attribute in node.attribute:
            _widen_attribute(attribute)
            for inner in (attribute.g, *attribute.graphs):
                _widen(inner, narrow, wide, constants)
                for value in (*inner.input, *inner.output):
                    if value.type.tensor_type.elem_type in NARROW_TYPES:
                        value.type.tensor_type.elem_type = _WIDE
                for tensor in inner.initializer:
                    _widen_tensor(tensor)
                for value in inner.output:
                    value.name = wide.get(value.name, value.name)
        nodes.append(node)
        for name, number in results.items() if node.op_type not in _EXACT else ():
            result = wide.get(name, name)
            exact, stored = f"{result}/exact", f"{result}/stored"
            node.output[:] = [exact if output == result else output for output in node.output]
            if limited := _overflow(node, exact, number, constants):
                nodes += limited
                exact = limited[-1].output[0]
            nodes += [_cast(exact, stored, number), _cast(stored, result, _WIDE)]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]


def _check(node: onnx.NodeProto, narrow: Mapping[str, int]) -> None:
    for name in (*node.input, *node.output):
        found = NARROW_TYPES.get(narrow.get(name, 0), "")
        if node.op_type in _OF_BITS and (found.startswith("float8") or (found and node.op_type == "BitCast")):
            raise NumcError(
                f"node '{label(node)}' ({node.op_type}): its tensor '{name}' is {found}, which only Cast and operators "
                "that compute with its values take: convert it with Cast"
            )


def _widen_attribute(attribute: onnx.AttributeProto) -> None:
    """Let an attribute that names a narrow type, or holds a tensor of one, say float32."""
    if attribute.name in _TYPES and attribute.i in NARROW_TYPES:
        attribute.i = _WIDE
    _widen_tensor(attribute.t)


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in NARROW_TYPES:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))


def _overflow(
    node: onnx.NodeProto, value: str, number: int, constants: MutableMapping[str, Array]
) -> list[onnx.NodeProto]:
    """The nodes between a Cast to float8 and its rounding, where that would overflow in another way; the last is read.

    Such a Cast saturates unless it says otherwise, and then gives an infinity, or NaN where there is none.
    """
    if node.op_type not in ("Cast", "CastLike"):
        return []
    saturates = all(attribute.name != "saturate" or attribute.i for attribute in node.attribute)
    result = f"{value}/limited"
    if number == onnx.TensorProto.FLOAT8E5M2 and saturates:
        least, most = f"{value}/least", f"{value}/most"
        constants[least], constants[most] = np.array(-_MOST_E5M2), np.array(_MOST_E5M2)
        return [onnx.helper.make_node("Clip", [value, least, most], [result], name=result)]
    if number == onnx.TensorProto.FLOAT8E4M3FN and not saturates:
        size, beyond, most, nan = (f"{value}/{word}" for word in ("size", "beyond", "most", "nan"))
        constants[most], constants[nan] = np.array(_ROUNDS_TO_MOST_E4M3), np.array(np.float32(np.nan))
        return [
            onnx.helper.make_node("Abs", [value], [size], name=size),
            onnx.helper.make_node("Greater", [size, most], [beyond], name=beyond),
            onnx.helper.make_node("Where", [beyond, nan, value], [result], name=result),
        ]
    return []
