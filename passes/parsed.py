"""Texts of IR that numc itself writes, as modules: without places, which would be those of no file."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.passmanager import PassManager


def parsed(text: str, context: ir.Context | None = None) -> ir.Module:
    """Return the module of a text, in `context` or the current one, with unknown locations only."""
    module = ir.Module.parse(text, context)
    manager = PassManager.parse("builtin.module(strip-debuginfo)", module.context)
    manager.enable_verifier(False)
    manager.run(module.operation)
    return module
