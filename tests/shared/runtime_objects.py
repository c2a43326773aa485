"""Small objects for the runtime's tests: MLIR text through LLVM to relocatable x86-64 code."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from numc.runtime.library import find_library

PASSES = (
    "builtin.module(func.func(llvm-request-c-wrappers),func.func(convert-linalg-to-loops),expand-strided-metadata,"
    "lower-affine,convert-scf-to-cf,convert-math-to-llvm,convert-index-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts)"
)


def packed_entry(pointers: int) -> str:
    """Return `numc_entry(void** args)`, which spreads `args` over the C wrapper of @main."""
    loads = []
    for i in range(pointers):
        loads.append(f"%p{i} = llvm.getelementptr %args[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr")
        loads.append(f"%a{i} = llvm.load %p{i} : !llvm.ptr -> !llvm.ptr")
    names = ", ".join(f"%a{i}" for i in range(pointers))
    types = ", ".join(["!llvm.ptr"] * pointers)
    body = "\n  ".join(loads)
    return f"""
llvm.func @_mlir_ciface_main({types})
llvm.func @numc_entry(%args: !llvm.ptr) {{
  {body}
  llvm.call @_mlir_ciface_main({names}) : ({types}) -> ()
  llvm.return
}}
"""


@functools.cache
def compile_object(text: str, pointers: int = 0) -> bytes:
    """Compile a module to an object; `pointers` > 0 adds the packed entry with that many pointers."""
    from torch_mlir import ir
    from torch_mlir.execution_engine import ExecutionEngine
    from torch_mlir.passmanager import PassManager

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        PassManager.parse(PASSES).run(module.operation)
        if pointers:
            lowered = str(module)
            entry = packed_entry(pointers)
            entry = entry[entry.index("llvm.func @numc_entry") :]
            end = lowered.rindex("}")
            module = ir.Module.parse(lowered[:end] + entry + lowered[end:])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "code.o"
            # PIC, as numc's own code generator asks for. The engine dumps nothing while a symbol is unresolved.
            libraries = [str(find_library())]
            engine = ExecutionEngine(
                module, opt_level=2, enable_object_dump=True, enable_pic=True, shared_libs=libraries
            )
            engine.dump_to_object_file(str(path))
            return path.read_bytes()
