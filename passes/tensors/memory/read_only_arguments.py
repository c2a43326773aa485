"""read-only-arguments: inputs and weights are borrowed, so bufferization must not write into them, updates excepted."""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts

_WRITABLE = "bufferization.writable"


def read_only_arguments(module: ir.Operation) -> None:
    """Forbid bufferization to write into arguments, those of @main that updates may overwrite excepted."""
    with module.context:
        updated = facts.of_arguments(module, "numc.updates")
        for op in module.regions[0].blocks[0].operations:
            if op.operation.name != "func.func":
                continue
            inputs = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs
            is_main = ir.StringAttr(op.attributes["sym_name"]).value == "main"
            marks = list(ir.ArrayAttr(op.attributes["arg_attrs"])) if "arg_attrs" in op.attributes else []
            marks = [ir.DictAttr(mark) for mark in marks] or [ir.DictAttr.get({})] * len(inputs)
            for number, argument in enumerate(inputs):
                if isinstance(argument, ir.RankedTensorType):
                    writable = ir.BoolAttr.get(is_main and number in updated)
                    kept = {named.name: named.attr for named in marks[number]}
                    marks[number] = ir.DictAttr.get({**kept, _WRITABLE: writable})
            op.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
