"""From the llvm dialect to object code by LLVM, the parts of a module in parallel."""

from __future__ import annotations

import ctypes
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch_mlir import _mlir_libs, ir

from numc.compiler.support.progress import tell
from numc.passes.kernels.backend.partition import Part, partition
from numc.runtime.archive import archive
from numc.runtime.library import default_threads


def compiled(module: ir.Module, entry: str) -> bytes:
    """Return the code of an llvm-dialect module whose functions name their processor; `entry` alone is visible.

    It is an object in the format of the machine that this runs on, or an ``ar`` archive of several.
    """
    parts = partition(module, entry)

    def code(number: int) -> bytes:
        tell("machine code of", parts[number].layer, number, len(parts))
        return compile_part(parts[number])

    with ThreadPoolExecutor(min(default_threads(), len(parts))) as pool:
        objects = list(pool.map(code, range(len(parts))))
    return objects[0] if len(objects) == 1 else archive(objects)


class _String(ctypes.Structure):
    """MlirStringRef; it borrows the text."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))

    @classmethod
    def of(cls, text: str) -> _String:
        data = text.encode()
        return cls(data, len(data))


@functools.cache
def _mlir() -> ctypes.CDLL:
    """MLIR's C interface (mlir-c/ExecutionEngine.h): Python's binding of it never releases the interpreter's lock."""
    (path,) = Path(_mlir_libs.__file__).parent.glob("lib*CAPI.so")
    mlir = ctypes.CDLL(str(path))
    engine, string, flag = ctypes.c_void_p, _String, ctypes.c_bool
    for name, result, arguments in (
        ("Create", engine, (ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, flag, flag)),
        ("RegisterSymbol", None, (engine, string, ctypes.c_void_p)),
        ("Lookup", ctypes.c_void_p, (engine, string)),
        ("DumpToObjectFile", None, (engine, string)),
        ("Destroy", None, (engine,)),
    ):
        function = getattr(mlir, f"mlirExecutionEngine{name}")
        function.restype, function.argtypes = result, arguments
    capsule = ctypes.pythonapi
    capsule.PyCapsule_GetName.restype, capsule.PyCapsule_GetName.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    capsule.PyCapsule_GetPointer.restype = ctypes.c_void_p
    capsule.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return mlir


def compile_part(part: Part) -> bytes:
    """Return the object of a part. Runs on several threads at once, so the part gets a context of its own."""
    mlir = _mlir()
    with ir.Context() as context:
        context.enable_multithreading(False)
        module = ir.Module.parse(part.bytecode)
        capsule = module._CAPIPtr
        address = ctypes.pythonapi.PyCapsule_GetPointer(capsule, ctypes.pythonapi.PyCapsule_GetName(capsule))
        engine = mlir.mlirExecutionEngineCreate(address, part.opt_level, 0, None, True, True)
    if not engine:
        raise RuntimeError("LLVM refused the module")
    try:
        # The engine links what it compiles, before it dumps it; the real addresses come with the runtime's loader.
        for name in part.needed:
            mlir.mlirExecutionEngineRegisterSymbol(engine, _String.of(name), 1)
        if not mlir.mlirExecutionEngineLookup(engine, _String.of(part.exported[0])):
            raise RuntimeError(f"LLVM compiled no function {part.exported[0]}")
        return _dumped(mlir, engine)
    finally:
        mlir.mlirExecutionEngineDestroy(engine)


def _dumped(mlir: ctypes.CDLL, engine: int) -> bytes:
    """The object that an engine has, through a pipe: LLVM ends the process when it cannot write all of a file."""
    source, sink = os.pipe()
    with ThreadPoolExecutor(1) as reader, os.fdopen(source, "rb") as pipe:
        content = reader.submit(pipe.read)
        try:
            mlir.mlirExecutionEngineDumpToObjectFile(engine, _String.of(f"/proc/self/fd/{sink}"))
        finally:
            os.close(sink)
        if not (found := content.result()):
            raise RuntimeError("LLVM wrote no object to /proc/self/fd")
        return found
