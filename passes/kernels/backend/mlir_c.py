"""MLIR's C interface for what takes long: Python's binding of it never releases the interpreter's lock."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from torch_mlir import _mlir_libs, ir
from torch_mlir.passmanager import PassManager


class String(ctypes.Structure):
    """MlirStringRef; it borrows the text."""

    _fields_ = (("data", ctypes.c_char_p), ("size", ctypes.c_size_t))

    @classmethod
    def of(cls, text: str) -> String:
        data = text.encode()
        return cls(data, len(data))


class _Success(ctypes.Structure):
    """MlirLogicalResult."""

    _fields_ = (("value", ctypes.c_int8),)


@functools.cache
def mlir() -> ctypes.CDLL:
    """The functions of mlir-c/ExecutionEngine.h and mlir-c/Pass.h that numc calls."""
    (path,) = Path(_mlir_libs.__file__).parent.glob("lib*CAPI.so")
    library = ctypes.CDLL(str(path))
    pointer, flag = ctypes.c_void_p, ctypes.c_bool
    for name, result, arguments in (
        ("ExecutionEngineCreate", pointer, (pointer, ctypes.c_int, ctypes.c_int, pointer, flag, flag)),
        ("ExecutionEngineRegisterSymbol", None, (pointer, String, pointer)),
        ("ExecutionEngineLookup", pointer, (pointer, String)),
        ("ExecutionEngineDumpToObjectFile", None, (pointer, String)),
        ("ExecutionEngineDestroy", None, (pointer,)),
        ("PassManagerRunOnOp", _Success, (pointer, pointer)),
    ):
        function = getattr(library, f"mlir{name}")
        function.restype, function.argtypes = result, arguments
    capsule = ctypes.pythonapi
    capsule.PyCapsule_GetName.restype, capsule.PyCapsule_GetName.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    capsule.PyCapsule_GetPointer.restype = ctypes.c_void_p
    capsule.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return library


def address(thing: Any) -> int:
    """The pointer of an object of Python's binding."""
    mlir()
    capsule, api = thing._CAPIPtr, ctypes.pythonapi
    pointer: int = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return pointer


def run(manager: PassManager, op: ir.Operation) -> None:
    """Run passes on `op` while other threads run Python. Raises RuntimeError with what MLIR said if one fails."""
    errors: list[str] = []

    def handle(diagnostic: ir.Diagnostic) -> bool:
        if is_error := diagnostic.severity == ir.DiagnosticSeverity.ERROR:
            errors.append(f"error: {diagnostic.location}: {diagnostic.message}")
        return bool(is_error)

    handler = op.context.attach_diagnostic_handler(handle)
    try:
        ran = mlir().mlirPassManagerRunOnOp(address(manager), address(op))
    finally:
        handler.detach()
    if not ran.value:
        raise RuntimeError("\n".join(["Failure while executing pass pipeline:", *errors]))
