"""packed-entry: main becomes ``numc_entry(void** args)``, whatever the number of its arguments.

args[0] points to where the result descriptors go (when there are results), the rest to one memref descriptor per
argument. Each descriptor is loaded where main begins: passing hundreds of expanded weights through a call costs LLVM
seconds.
"""

from __future__ import annotations

from torch_mlir import ir

from numc.passes import facts, linalg
from numc.passes.buffers.views import descriptor_type
from numc.passes.kernels.builder import Function
from numc.passes.kernels.ssa import PTR
from numc.passes.parsed import parsed

ENTRY = "numc_entry"
_BODY = "main_body"  # stands for the body of main in the text of the entry


def packed_entry(module: ir.Operation) -> None:
    """Make @main a function of one array of pointers to what its arguments describe."""
    with module.context, ir.Location.unknown():
        main = linalg.main(module)
        function_type = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        source = parsed(_text(list(function_type.inputs), list(function_type.results)))
        block = module.regions[0].blocks[0]
        block.append(source.body.operations[0].operation.clone())
        entry = list(block.operations)[-1].operation
        del entry.attributes["sym_visibility"]
        old, new = main.regions[0].blocks[0], entry.regions[0].blocks[0]
        ops = [op.operation for op in new.operations]
        marker = next(op for op in ops if op.name == "func.call")
        casts = [op for op in ops[: ops.index(marker)] if op.name == "builtin.unrealized_conversion_cast"]
        for argument, cast in zip(old.arguments, casts, strict=True):
            argument.replace_all_uses_with(cast.results[0])
        *body, end = [op.operation for op in old.operations]
        returned = list(end.operands)
        for op in body:
            op.move_before(marker)
        linalg.replace(marker, returned)
        facts.keep_arguments(main, entry)
        main.erase()


def _text(inputs: list[ir.Type], results: list[ir.Type]) -> str:
    """The entry with a call where the body of main goes."""
    f = Function(ENTRY, {"args": PTR}, attributes="")
    for n, memref in enumerate(inputs):
        address, struct = f.fetch(f["args"], n + bool(results), PTR), descriptor_type(memref)
        descriptor = f.op(f"llvm.load {address} : {PTR} -> {struct}", struct)
        f.op(f"builtin.unrealized_conversion_cast {descriptor} : {struct} to {memref}", str(memref))
    types = [str(memref) for memref in results]
    call = f"func.call @{_BODY}() : () -> ({', '.join(types)})"
    if results:
        made = f.several(call, *types)
        places = f.fetch(f["args"], 0, PTR)
        whole = f"!llvm.struct<({', '.join(descriptor_type(memref).removeprefix('!llvm.') for memref in results)})>"
        for n, (memref, value) in enumerate(zip(results, made, strict=True)):
            struct = descriptor_type(memref)
            descriptor = f.op(f"builtin.unrealized_conversion_cast {value} : {memref} to {struct}", struct)
            field = f.op(f"llvm.getelementptr {places}[0, {n}] : ({PTR}) -> {PTR}, {whole}", PTR)
            f.line(f"llvm.store {descriptor}, {field} : {struct}, {PTR}")
    else:
        f.line(call)
    return f"{f.function()}\nfunc.func private @{_BODY}() -> ({', '.join(types)})"
