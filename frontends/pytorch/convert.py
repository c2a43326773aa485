"""Conversion of graphs of aten operations to linalg text by torch-mlir, and diagnosis of failures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import ContextCache, FxImporter

from numc.frontends.imported import ConversionError
from numc.frontends.lowering.loops import to_calls
from numc.frontends.lowering.torch_mlir_passes import conversion_errors, erase_checks, lower_apart, operations
from numc.frontends.pytorch.graphs.graph import Refusal, failed, refusal, values_of
from numc.frontends.pytorch.graphs.narrow import in_wide
from numc.frontends.pytorch.graphs.size_numbers import name_operators
from numc.frontends.words import CONTRADICTION, NO_CONVERSION, with_operands
from numc.support.errors import quoted

TO_BACKEND_CONTRACT = (
    "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline{extra-library=}"
)
# Checks of what has a value, as 1/0 and a reshape to a size of 0 do.
_IDLE_CHECKS = (
    "unimplemented: tensor with zero element",
    "Expected dim size > 0.",
    # the pass run-time-checks inserts these for every operation.
    "index must be larger or equal to 0",
    "index must be smaller than dim size",
)
_LEFT = re.compile(r"tm_tensor\.(?!yield).*")


def to_linalg(
    graph: fx.Graph, names: Mapping[fx.Node, str], finish: Callable[[ir.Module], None] = lambda module: None
) -> str:
    """Return a module whose ``@main`` takes the graph's placeholders; operations carry their `names` as locations.

    finish: may change the module in the end. Raises ConversionError when torch-mlir fails.
    """
    graph, names = in_wide(graph, names)
    name_operators(graph)
    context = ir.Context()
    context.enable_multithreading(False)  # a worker may not start threads
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    importer._cc = _Named(importer, names)
    with conversion_errors():
        function = importer.import_stateless_graph(graph, func_name="main")
        # Sizes that have to fit together are equal: torch has checked it when it traced the graph.
        function.operation.attributes["torch.assume_strict_symbolic_shapes"] = ir.UnitAttr.get(context)
        to_calls(importer.module)
    module = lower_apart(importer.module, TO_BACKEND_CONTRACT)
    erase_checks(module, _IDLE_CHECKS)
    if left := sorted({_place(op) for op in operations(module) if _LEFT.fullmatch(op.name)}):
        raise ConversionError(NO_CONVERSION, f"becomes {', '.join(left)}, which is not available")
    finish(module)
    return str(module.operation.get_asm(enable_debug_info=True))


def _place(op: ir.Operation) -> str:
    """The name of an operation of the IR, with that of the node it comes from where it has one."""
    location = op.location
    return f"{op.name} ({quoted(location.name_str)})" if isinstance(location, ir.NameLoc) else str(op.name)


class _Named(ContextCache):  # type: ignore[misc]
    """The importer's types, and locations that are the name of a node instead of the lines of its call stack."""

    __slots__ = ("names",)

    def __init__(self, importer: FxImporter, names: Mapping[fx.Node, str]) -> None:
        super().__init__(importer._c, py_attr_tracker=importer._py_attr_tracker)
        self.names = names

    def get_node_location(self, node: fx.Node) -> ir.Location:
        if node in self.names:
            return ir.Location.name(self.names[node], context=self._c)
        return ir.Location.unknown(self._c)


def diagnose(nodes: Iterable[fx.Node]) -> list[tuple[fx.Node, Refusal]]:
    """Try to lower every distinct operation alone, if nothing refuses it already; return the operations that fail."""
    verdicts: dict[str, str | None] = {}
    failures = []
    for node in nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if any(_example(v) is None for n in node.all_input_nodes for v in values_of(n)):
            continue
        if refusal(node) is not None:
            continue
        alone = _alone(node)
        key = str(alone) + str([values_of(n) for n in alone.nodes if n.op == "placeholder"])
        if key not in verdicts:
            try:
                to_linalg(alone, {})
                verdicts[key] = None
            except ConversionError as error:
                # Sizes do fit together: torch has checked it when it traced the graph.
                reason = NO_CONVERSION if str(error) == CONTRADICTION else str(error)
                verdicts[key] = with_operands(reason, *_operands(node))
        if (why := verdicts[key]) is not None:
            failures.append((node, failed(node, why)))
    return failures


def _operands(node: fx.Node) -> tuple[list[str], dict[str, Any]]:
    """Return the tensors that an operation reads, as their dtypes and sizes, and what else it is given, by name."""
    kinds = [
        f"{str(v.dtype).removeprefix('torch.')}[{', '.join(map(str, v.shape))}]"
        for n in node.all_input_nodes
        for v in values_of(n)
        if isinstance(v, torch.Tensor)
    ]
    assert isinstance(node.target, torch._ops.OpOverload)
    names = [argument.name for argument in node.target._schema.arguments]
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    plain = {n: v for n, v in arguments.items() if not any(isinstance(x, fx.Node) for x in pytree.tree_leaves(v))}
    return kinds, {name: value for name, value in plain.items() if value is not None}


def _example(value: Any) -> Any:
    """The stand-in for a value in an operation alone: a tensor, or the number of the example; None for others."""
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return value.node.hint
    return value if isinstance(value, torch.Tensor) else None


def _alone(node: fx.Node) -> fx.Graph:
    """Return a graph of one node, with the same names for equal nodes, so that equal nodes are tried once.

    A program cannot have a number as an argument, so that it has those of the example.
    """
    graph = fx.Graph()
    inputs: dict[fx.Node, Any] = {}
    for number, operand in enumerate(node.all_input_nodes):
        example = operand.meta.get("val")
        if not isinstance(example, (torch.Tensor, list, tuple)):
            inputs[operand] = _example(example)
            continue
        inputs[operand] = graph.placeholder(f"i{number}")
        inputs[operand].meta = {"val": example}
    copy = graph.node_copy(node, inputs.__getitem__)
    copy.name = "node"
    values = values_of(node)
    if len(values) == 1:
        graph.output((copy,))
        return graph
    parts = []
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            part = graph.call_function(getitem, (copy, number))
            part.meta = {"val": value}
            parts.append(part)
    graph.output(tuple(parts))
    return graph
