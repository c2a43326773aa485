"""read-only-arguments: inputs and weights are borrowed, so bufferization must not write into them, updates excepted."""

from __future__ import annotations

from collections.abc import Collection

from torch_mlir import ir

from numc.passes import linalg


def read_only_arguments(module: ir.Operation, updated: Collection[int] = ()) -> None:
    """Mark every tensor argument of every function ``bufferization.writable = false``, in place.

    updated: the numbers of main's arguments that may be overwritten.
    """
    with module.context:
        main = linalg.main(module)
        for op in module.regions[0].blocks[0].operations:
            if op.operation.name != "func.func":
                continue
            kind = ir.FunctionType(ir.TypeAttr(op.operation.attributes["function_type"]).value)
            marks = [ir.DictAttr.get({})] * len(kind.inputs)
            for number, argument in enumerate(kind.inputs):
                if isinstance(argument, ir.RankedTensorType):
                    writable = op.operation == main and number in updated
                    marks[number] = ir.DictAttr.get({"bufferization.writable": ir.BoolAttr.get(writable)})
            op.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
