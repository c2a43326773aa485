"""From a prepared ONNX model to linalg text, with torch-mlir. Runs in the worker."""

from __future__ import annotations

import onnx
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import onnx_importer
from torch_mlir.passmanager import PassManager

from numc.compiler.errors import NumcError

PIPELINES = ("torch-onnx-to-torch-backend-pipeline", "torch-backend-to-linalg-on-tensors-backend-pipeline")


class ConversionError(Exception):
    """torch-mlir refused the model; the text is its first diagnostic."""


def to_linalg(model: onnx.ModelProto) -> str:
    """Return a module whose ``@main`` takes the graph's inputs; operations carry the names of their nodes as locations.

    Raises ConversionError when torch-mlir fails, NumcError when the result could abort at run time.
    """
    context = ir.Context()
    # Forked children (diagnosis) must not inherit a thread pool.
    context.enable_multithreading(False)
    torch_dialect.register_dialect(context)
    # None: expand every operator that ONNX defines by a function.
    config = onnx_importer.Config(function_expansion_allowlists_by_domain=None)
    try:
        info = onnx_importer.ModelInfo(model, config=config)
        module = info.create_module(context=context)
        onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
        with context:
            for pipeline in PIPELINES:
                PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
    except ir.MLIRError as error:
        raise ConversionError(_diagnostic(error)) from None
    except Exception as error:
        raise ConversionError(_one_line(f"{error}" or type(error).__name__)) from None
    _refuse_asserts(module)
    return module.operation.get_asm(enable_debug_info=True)


def _diagnostic(error: ir.MLIRError) -> str:
    diagnostics = error.error_diagnostics
    return _one_line(diagnostics[0].message if diagnostics else str(error))


def _one_line(text: str, limit: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + "..."


def _refuse_asserts(module: ir.Module) -> None:
    """Refuse cf.assert: a failed one would abort the user's process."""
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "cf.assert":
            found.append(f"{node_name(op.location)!r} ({ir.StringAttr(op.attributes['msg']).value})")
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found:
        raise NumcError(f"checks at run time are not available, needed by node {', '.join(dict.fromkeys(found))}; "
                        "fix the sizes of the inputs with shapes={...}")  # fmt: skip


def node_name(location: ir.Location) -> str:
    """Return the name in ``loc("name")``, or the location's text."""
    return location.name_str if location.is_a_name() else str(location)
