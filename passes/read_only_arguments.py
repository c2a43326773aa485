"""read-only-arguments: the caller's inputs and the weights are borrowed, so bufferization must not write into them."""

from __future__ import annotations

from torch_mlir import ir


def read_only_arguments(module: ir.Operation) -> None:
    """Mark every tensor argument of every function ``bufferization.writable = false``, in place."""
    with module.context:
        for op in module.regions[0].blocks[0].operations:
            if op.operation.name != "func.func":
                continue
            kind = ir.FunctionType(ir.TypeAttr(op.operation.attributes["function_type"]).value)
            read_only = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(False)})
            marks = [read_only if isinstance(t, ir.RankedTensorType) else ir.DictAttr.get({}) for t in kind.inputs]
            op.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
