"""Inputs of a model on which the shapes of its results depend, or which of its nodes run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

# Positions of the inputs of operators that say what shape a result has, and not what is in it.
_POSITIONS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **dict.fromkeys(
        (f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum",
                                      "SumSquare")), (1,)
    ),
}  # fmt: skip


def structural_inputs(model: onnx.ModelProto) -> list[str]:
    """Return the names of the inputs without initialiser, of rank 1 or less, on which structure depends.

    Structure depends on what an operator takes as axes, a shape, a number of repetitions or a condition, and on what
    that is computed from, except for its shape.
    """
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer}
    functions = {(function.domain, function.name) for function in model.functions}
    small = [
        value.name
        for value in graph.input
        if value.name not in stored
        and value.type.tensor_type.HasField("shape")
        and len(value.type.tensor_type.shape.dim) <= 1
    ]
    needed = structural_values([node for node in graph.node if (node.domain, node.op_type) not in functions])
    return [name for name in small if name in needed]


def structural_values(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the names of the values on which structure depends."""
    every = list(with_inner(nodes))
    made = {name: node for node in every for name in node.output}
    needed: set[str] = set()
    for node in every:
        _follow([node.input[n] for n in _POSITIONS.get(node.op_type, ()) if n < len(node.input)], made, needed)
    return needed


def with_inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those inside of them."""
    for node in nodes:
        yield node
        for graph in _graphs(node):
            yield from with_inner(graph.node)


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node and the graphs in it read, also those that such a graph hands on as its results."""
    yield from node.input
    for graph in _graphs(node):
        for inner in graph.node:
            yield from names_read(inner)
        yield from (value.name for value in graph.output)


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from (attribute.g, *attribute.graphs)


def _follow(names: list[str], made: dict[str, onnx.NodeProto], needed: set[str]) -> None:
    """Add names, and those of the values that they are computed from, to `needed`."""
    while names:
        name = names.pop()
        if name and name not in needed:
            needed.add(name)
            if name in made and made[name].op_type not in ("Shape", "Size"):
                names.extend(made[name].input)
                names.extend(output.name for graph in _graphs(made[name]) for output in graph.output)
