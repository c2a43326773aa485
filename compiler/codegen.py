"""From the llvm dialect to an object file for the chosen target."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine

from numc.compiler.targets import Target

_RUNTIME_SYMBOLS = ("numc_parallel", "numc_contract", "numc_alloc", "numc_free", "numc_ftz_begin", "numc_ftz_end")


def object_code(module: ir.Module, target: Target, opt_level: int = 2) -> bytes:
    """Return the ELF relocatable object of an llvm-dialect module (position independent, for the runtime's loader)."""
    with module.context, ir.Location.unknown():
        attributes = ir.DictAttr(ir.Attribute.parse(target.function_attributes))
        for op in module.body.operations:
            if op.operation.name == "llvm.func" and op.operation.regions[0].blocks:
                _for_target(op.operation, attributes)
        engine = ExecutionEngine(module, opt_level=opt_level, shared_libs=[], enable_object_dump=True, enable_pic=True)
        # The engine links before it dumps; the real addresses come with the runtime's loader.
        for symbol in _RUNTIME_SYMBOLS:
            engine.raw_register_runtime(symbol, ctypes.c_void_p(1))
    handle, path = tempfile.mkstemp(suffix=".o")
    os.close(handle)
    try:
        engine.dump_to_object_file(path)
        return Path(path).read_bytes()
    finally:
        os.unlink(path)


def _for_target(function: ir.Operation, attributes: ir.DictAttr) -> None:
    for named in attributes:
        if named.name == "passthrough" and "passthrough" in function.attributes:
            existing = list(ir.ArrayAttr(function.attributes["passthrough"]))
            function.attributes["passthrough"] = ir.ArrayAttr.get([*existing, *ir.ArrayAttr(named.attr)])
        else:
            function.attributes[named.name] = named.attr
