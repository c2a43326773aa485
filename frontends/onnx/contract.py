"""ONNX in torch-mlir to torch's backend contract. Runs in the worker.

These are the passes of torch-mlir's own ``torch-onnx-to-torch-backend-pipeline``. Nearly all of their time goes into
the inference of shapes, for which each operation gets a function that computes the shape of its result, and that is
inlined and folded. It is left out where it has nothing to find: onnx has inferred the shapes of most models before.
"""

from __future__ import annotations

import re

from torch_mlir import ir

from numc.frontends.lowering.torch_mlir_passes import operations, run
from numc.frontends.onnx.sizes.recurrent_sizes import take_free_sizes

_TO_TORCH = "func.func(convert-torch-onnx-to-torch)"
_SIMPLIFY = "func.func(torch-decompose-complex-ops,canonicalize)"
_WRITE_SHAPES = "torch-reify-shape-calculations"
_FOLD_SHAPES = (
    "inline{default-pipeline=canonicalize},"
    "func.func(torch-simplify-shape-calculations,cse,torch-simplify-shape-calculations,"
    "torch-drop-abstract-interp-calculations)"
)
_SCALARIZE = "func.func(torch-scalarize-shapes)"
_FINISH = "torch-refine-public-return,func.func(canonicalize,torch-decompose-complex-ops,canonicalize)"
_KNOWN = re.compile(r"!torch\.vtensor<\[[\d,]*\],[^,]+>")


def to_backend_contract(module: ir.Module) -> None:
    """Lower `module` from operators of ONNX to those of torch, in place. Raises MLIRError if a pass fails."""
    run(_TO_TORCH, module)
    take_free_sizes(module)
    run(_SIMPLIFY, module)
    _refine_shapes(module)
    run(_SCALARIZE, module)
    _refine_shapes(module)
    run(_FINISH, module)


def _refine_shapes(module: ir.Module) -> None:
    run(_FOLD_SHAPES if _all_shapes_known(module) else f"{_WRITE_SHAPES},{_FOLD_SHAPES}", module)


def _all_shapes_known(module: ir.Module) -> bool:
    """Whether every tensor that is read has a type and sizes that are fixed."""
    return all(
        _KNOWN.fullmatch(type_text) or not list(result.uses)
        for op in operations(module)
        for result in op.results
        if (type_text := str(result.type)).startswith(("!torch.vtensor", "!torch.tensor"))
    )
