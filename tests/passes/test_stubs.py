"""The types of MLIR's binding (stubs/): mypy sees the IR, and every name that they have is in the binding."""

from __future__ import annotations

import ast

import pytest
from torch_mlir import ir
from torch_mlir.dialects import linalg

from rooms import ROOT

TREE = ast.parse((ROOT / "stubs/torch_mlir/ir.pyi").read_text())
CLASSES = [node for node in TREE.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
# An attribute of instances; what Python does by numbers.
NOT_IN_THE_CLASS = {"MLIRError.error_diagnostics", "DictAttr.__iter__"}


@pytest.mark.parametrize("stub", CLASSES, ids=lambda node: node.name)
def test_the_binding_has_every_name(stub: ast.ClassDef) -> None:
    real = getattr(ir, stub.name)
    members = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    members |= {t.target.id for t in stub.body if isinstance(t, ast.AnnAssign) and isinstance(t.target, ast.Name)}
    missing = {f"{stub.name}.{name}" for name in members if name not in dir(real)}
    assert missing <= NOT_IN_THE_CLASS
    if stub.name != "OpView":  # it stands wherever an Operation does, though it is none
        for base in stub.bases:
            if isinstance(base, ast.Name) and not base.id.startswith("_") and hasattr(ir, base.id):
                assert issubclass(real, getattr(ir, base.id))


def test_the_functions_of_linalg_are_there() -> None:
    assert callable(linalg.fill)
    assert callable(linalg.matmul)
    assert len(CLASSES) > 50
