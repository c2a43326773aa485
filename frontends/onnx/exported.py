"""The words for nodes of an ONNX graph: operators, and the modules that exporters made them of."""

from __future__ import annotations

import ast
from collections.abc import Container

import onnx

_CLASSES = "pkg.torch.onnx.class_hierarchy"
"""The property of a node in which torch.onnx writes the classes of its modules, and last the operator of torch."""


def exported_words(graph: onnx.GraphProto) -> dict[str, str]:
    """Return, by name of a node, the operator and the class of the module that it was exported from, if it says so."""
    written = {node.name: p.value for node in graph.node for p in node.metadata_props if p.key == _CLASSES}
    return {name: _last_two(text) for name, text in written.items()}


def _last_two(text: str) -> str:
    """The operator and the last class of a list of names, as words; "" for a text that is none."""
    try:
        names = ast.literal_eval(text[:10_000])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if not isinstance(names, list) or not all(isinstance(name, str) and " " not in name for name in names):
        return ""
    operators = [name for name in names[-1:] if name.startswith("aten.")]
    classes = [name.rpartition(".")[2] for name in names if not name.startswith("aten.")]
    return " ".join([*operators, *classes[-1:]])


def words_of(node: onnx.NodeProto, operator: str, exported: str, matrices: Container[str]) -> str:
    """Return the words for a node: its operator in the file, and what it was exported from.

    A product with one of `matrices`, which are constant, is a linear layer.
    """
    linear = "linear" if node.op_type == "MatMul" and node.input[1] in matrices else ""
    return " ".join(filter(None, (operator, exported, linear)))
