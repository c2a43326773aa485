"""Free sizes that may be 1, and stretch then to those of other operands: torch-mlir takes no free size for 1.

Where two sizes may differ as far as is known, an Expand of the one to the other is written, which does nothing where
they are equal (frontends/lowering/expansions.py). Runs in the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx

from numc.frontends.onnx.reading.read import origin
from numc.frontends.onnx.rewrites.linear import letters_of
from numc.frontends.onnx.rewrites.node import Array, Node
from numc.frontends.onnx.sizes.symbolic_sizes import BROADCASTING

Dim: TypeAlias = onnx.TensorShapeProto.Dimension
Dims: TypeAlias = Sequence[Dim]

_TO_THE_FIRST = frozenset(["LayerNormalization", "RMSNormalization"])
"""Operators whose operands stretch to the first one, which does not."""
_CORE = {**dict.fromkeys(BROADCASTING | _TO_THE_FIRST, 0), "Gemm": 0, "MatMul": 2}
"""Operators whose operands stretch, and how many of the last dimensions do not."""

_OF_ONE_SIZE = frozenset(
    [
        *("AffineGrid", "AveragePool", "Col2Im", "DeformConv", "GridSample", "LpPool", "MaxPool", "MaxUnpool", "Pad"),
        *("QLinearAveragePool", "Resize", "RoiAlign", "Upsample"),
    ]
)
"""Operators whose rules write operands that fit together, although their free sizes have other names."""

PAIRS = "numc.pairs"
"""The attribute of an Expand to sizes of its third input: pairs of dimensions, as lowering/expansions.py has them."""


def broadcast(graph: onnx.GraphProto, constants: dict[str, Array], opset: int, kinds: Mapping[str, str]) -> bool:
    """Write the expansions of a graph whose types are known, in place; return whether there are any.

    kinds: by the origin of a node, the operator of the model that it belongs to.
    """
    types = {value.name: value.type for value in [*graph.input, *graph.output, *graph.value_info]}
    taken = {*types, *constants, *(name for node in graph.node for name in node.output)}
    nodes: list[onnx.NodeProto] = []
    changed = False
    for proto in graph.node:
        node = Node(proto=proto, types=types, constants=constants, opset=opset, taken=taken, last=True)
        if proto.domain in ("", "ai.onnx") and len(proto.input) > 1 and kinds.get(origin(proto)) not in _OF_ONE_SIZE:
            operands = _stretched(node) if proto.op_type in _CORE else _by_letters(node)
            if node.made:
                for number, made in enumerate(node.made):  # the node itself keeps its name
                    made.name, made.doc_string = f"{proto.name}#{number}", proto.doc_string
                changed = True
                proto.input[:] = operands
        nodes += [*node.made, onnx.NodeProto.FromString(proto.SerializeToString())]
    if changed:
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def _stretched(node: Node) -> list[str]:
    """The operands of a node, expanded where they may have to be."""
    dims = [_dims(node, name) for name in node.proto.input]
    operands = list(node.proto.input)
    for n, mine in enumerate(dims):
        for m, axes in _meeting(node, n, dims):
            its = dims[m]
            if mine is None or its is None:
                return list(node.proto.input)
            pairs = [(a, b) for a, b in axes if -a <= len(mine) and -b <= len(its) and _may_stretch(mine[a], its[b])]
            operands[n] = _expanded(node, operands[n], node.input(m), pairs)
    return operands


def _meeting(node: Node, n: int, dims: Sequence[Dims | None]) -> list[tuple[int, list[tuple[int, int]]]]:
    """Which operands the operand `n` meets, in which of its dimensions and of theirs, counted from the last one, -1."""
    op_type = node.proto.op_type
    if op_type == "Gemm":  # the bias has the rows of the one matrix, and the columns of the other
        turns = [node.attribute(name, 0) for name in ("transA", "transB")]
        return [(0, [(-2, -1 if turns[0] else -2)]), (1, [(-1, -2 if turns[1] else -1)])] if n == 2 else []
    every = [(-k, -k) for k in range(_CORE[op_type] + 1, len(dims[n] or ()) + 1)]
    if op_type in _TO_THE_FIRST:
        return [(0, every)] if n else []
    return [(m, every) for m in range(len(dims)) if m != n]


def _by_letters(node: Node) -> list[str]:
    """The operands of an Einsum, expanded where they may have to be; those of any other operator."""
    operands = list(node.proto.input)
    dims = [_dims(node, name) for name in operands]
    if node.proto.op_type != "Einsum" or any(each is None for each in dims):
        return operands
    terms = letters_of(node)
    for n, (term, mine) in enumerate(zip(terms, dims, strict=True)):
        for m, (other, its) in enumerate(zip(terms, dims, strict=True)):
            both = [(axis, other.index(letter)) for axis, letter in enumerate(term) if letter in other and m != n]
            open_ones = [(a, b) for a, b in both if mine and its and _may_stretch(mine[a], its[b])]
            pairs = [(a - len(term), b - len(other)) for a, b in open_ones]
            operands[n] = _expanded(node, operands[n], node.input(m), pairs)
    return operands


def _may_stretch(size: Dim, other: Dim) -> bool:
    """Whether a size may be 1 and another one not."""
    if size.HasField("dim_value") or (other.HasField("dim_value") and other.dim_value == 1):
        return False
    return not (size.dim_param and size.dim_param == other.dim_param)


def _expanded(node: Node, value: str, other: str, pairs: Sequence[tuple[int, int]]) -> str:
    """Emit a value of which some dimensions, the first ones of pairs, are stretched to some of another value."""
    if not pairs:
        return value
    target: list[int | str] = [1] * -min(mine for mine, _ in pairs)
    for mine, its in pairs:
        target[mine] = node.size(other, its)
    # The list of sizes is for what infers shapes, the other value for the code.
    flat = [number for pair in pairs for number in pair]
    expanded = node.op("Expand", value, node.list_of(target), other)
    node.made[-1].attribute.append(onnx.helper.make_attribute(PAIRS, flat))
    return expanded


def _dims(node: Node, name: str) -> Dims | None:
    if name in node.constants:
        return [Dim(dim_value=size) for size in np.shape(node.constants[name])]
    tensor_type = node.types[name].tensor_type if name in node.types else None
    return None if tensor_type is None or not tensor_type.HasField("shape") else list(tensor_type.shape.dim)
