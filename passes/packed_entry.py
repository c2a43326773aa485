"""packed-entry: make main callable through one pointer array, whatever the number of its arguments."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import func

ENTRY = "numc_entry"


def packed_entry(module: ir.Module) -> None:
    """Give ``@main`` a C interface and add ``@numc_entry(void** args)`` that forwards to it (results first)."""
    with module.context, ir.Location.unknown():
        main = next(op for op in module.body.operations if isinstance(op, func.FuncOp) and op.name.value == "main")
        main.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        count = len(main.type.inputs) + bool(main.type.results)
        loads = "\n".join(
            f"  %a{n} = llvm.getelementptr %args[{n}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
            f"  %p{n} = llvm.load %a{n} : !llvm.ptr -> !llvm.ptr"
            for n in range(count)
        )
        pointers = ", ".join(f"%p{n}" for n in range(count))
        types = ", ".join(["!llvm.ptr"] * count)
        text = f"llvm.func @{ENTRY}(%args: !llvm.ptr) {{\n{loads}\n  llvm.call @_mlir_ciface_main({pointers}) : ({types}) -> ()\n  llvm.return\n}}"
        declaration = f"llvm.func @_mlir_ciface_main({types})"
        source = ir.Module.parse(declaration + "\n" + text)
        module.body.append(source.body.operations[1].operation.clone())
