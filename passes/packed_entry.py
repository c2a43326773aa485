"""c-interface and packed-entry: make main callable through one pointer array, whatever the number of its arguments."""

from __future__ import annotations

from torch_mlir import ir

ENTRY = "numc_entry"


def c_interface(module: ir.Module) -> None:
    """Ask for ``_mlir_ciface_main``, which takes every memref by a pointer to its descriptor."""
    with module.context:
        _find(module, "func.func", "main").attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def packed_entry(module: ir.Module) -> None:
    """Add ``@numc_entry(void** args)`` to the llvm-dialect `module`: it forwards to ``_mlir_ciface_main``."""
    with module.context, ir.Location.unknown():
        main = _find(module, "llvm.func", "_mlir_ciface_main")
        count = len(main.regions[0].blocks[0].arguments)
        loads = "\n".join(
            f"  %a{n} = llvm.getelementptr %args[{n}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
            f"  %p{n} = llvm.load %a{n} : !llvm.ptr -> !llvm.ptr"
            for n in range(count)
        )
        pointers = ", ".join(f"%p{n}" for n in range(count))
        types = ", ".join(["!llvm.ptr"] * count)
        text = f"""
llvm.func @_mlir_ciface_main({types})
llvm.func @{ENTRY}(%args: !llvm.ptr) {{
{loads}
  llvm.call @_mlir_ciface_main({pointers}) : ({types}) -> ()
  llvm.return
}}"""
        source = ir.Module.parse(text)
        module.body.append(source.body.operations[1].operation.clone())


def _find(module: ir.Module, kind: str, name: str) -> ir.Operation:
    for op in module.body.operations:
        if op.operation.name == kind and ir.StringAttr(op.attributes["sym_name"]).value == name:
            return op.operation
    raise ValueError(f"the module has no {kind} @{name}")
