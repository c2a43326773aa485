"""From functions of loops and vectors to object code by LLVM, the parts of a module in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from torch_mlir import ir

from numc.passes.kernels.backend import Lower
from numc.passes.kernels.backend.linkage import link
from numc.passes.kernels.backend.mlir_c import String, address, mlir
from numc.passes.kernels.backend.partition import Part, declared, partition
from numc.runtime.archive import archive
from numc.runtime.library import default_threads
from numc.support.progress import tell

CompilePart = Callable[[Part, Lower, str], bytes]
"""Makes the object of a part in the current context, given what lowers it and the name of the entry."""


class ObjectCode:
    """The object code of a module: threads make it, of complete functions while the others are still changing.

    It is a context manager, which waits for its threads. entry: the function that alone is visible in the code.
    compiles: what makes the object of a part, else MLIR's own engine, for the machine that this runs on.
    """

    def __init__(self, lower: Lower, entry: str, compiles: CompilePart | None = None) -> None:
        self._lower, self._entry, self._compile = lower, entry, compiles or compile_part
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(default_threads(), initializer=self._prepare)
        self._objects: list[tuple[str, Future[bytes]]] = []

    def __enter__(self) -> ObjectCode:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, module: ir.Module, complete: Collection[str]) -> None:
        """Begin with the functions `complete`, which no pass will change: they leave `module`, which declares them."""
        parts = partition(module, self._entry, complete)
        exported = {name for part in parts for name in part.exported}
        for op in [op.operation for op in module.body.operations]:
            name = ir.StringAttr(op.attributes["sym_name"]).value
            if name in complete:
                if name in exported:
                    with ir.InsertionPoint(op), op.location:
                        declared(op)
                op.erase()
        self._submit(parts)

    def finish(self, module: ir.Module) -> bytes:
        """Return the code of what has begun and of `module`, in which every other function is complete now.

        It is an object (ELF), or an ``ar`` archive of several.
        """
        self._submit(partition(module, self._entry))
        objects = []
        for number, (layer, made) in enumerate(self._objects):
            tell("machine code of", layer, number, len(self._objects))
            objects.append(made.result())
        return objects[0] if len(objects) == 1 else archive(objects)

    def of_part(self, part: Part) -> bytes:
        """Return the object of a part that is no part of the module."""
        return self._pool.submit(self._made, part).result()

    def _submit(self, parts: list[Part]) -> None:
        self._objects += [(p.layer, self._pool.submit(self._made, p)) for p in parts]

    def _prepare(self) -> None:
        """Give a thread a context for all parts that it makes: a new one loads every dialect again."""
        self._own.context = ir.Context()
        self._own.context.enable_multithreading(False)
        self._own.context.allow_unregistered_dialects = True  # what numc notes about functions

    def _made(self, part: Part) -> bytes:
        with self._own.context:
            return self._compile(part, self._lower, self._entry)


def compile_part(part: Part, lower: Lower, entry: str) -> bytes:
    """Return the object of a part, made in the current context, which no other thread may use meanwhile."""
    module = ir.Module.parse(part.bytecode)
    lower(module)
    needed, optimise = link(module, part.exported, entry)
    engine = mlir().mlirExecutionEngineCreate(address(module), 2 * optimise, 0, None, True, True)
    if not engine:
        raise RuntimeError("LLVM refused the module")
    try:
        # The engine links what it compiles, before it dumps it; the real addresses come with the runtime's loader.
        for name in needed:
            mlir().mlirExecutionEngineRegisterSymbol(engine, String.of(name), 1)
        if not mlir().mlirExecutionEngineLookup(engine, String.of(part.exported[0])):
            raise RuntimeError(f"LLVM compiled no function {part.exported[0]}")
        return _dumped(engine)
    finally:
        mlir().mlirExecutionEngineDestroy(engine)


def _dumped(engine: int) -> bytes:
    """The object that an engine has, through a pipe: LLVM ends the process when it cannot write all of a file."""
    source, sink = os.pipe()
    with ThreadPoolExecutor(1) as reader, os.fdopen(source, "rb") as pipe:
        content = reader.submit(pipe.read)
        try:
            mlir().mlirExecutionEngineDumpToObjectFile(engine, String.of(f"/proc/self/fd/{sink}"))
        finally:
            os.close(sink)
        if not (object_bytes := content.result()):
            raise RuntimeError("LLVM wrote no object to /proc/self/fd")
        return object_bytes
