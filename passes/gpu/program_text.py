"""The text of a program for GPUs: a Python module with its kernels, and ``main``, which calls them.

What a program file holds of it as code is a zip archive of that text and of the arrays that are constants in it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection
from types import TracebackType

import numpy as np
from torch_mlir import ir

from numc.passes import linalg
from numc.passes.gpu.host_text import Host, Written
from numc.passes.gpu.kernel_text import no_kernel
from numc.runtime.gpu.archive_names import CONSTANTS, TEXT

_HEAD = '''"""Kernels and host of a program, written by numc: Triton's language (tl) and Gluon's (gl)."""

import torch
import triton
import triton.language as tl

from numc.runtime.gpu.host_numbers import (
    ceiling, compared, divided, float32, float64_bits, leading_zeros, maximum, minimum, quotient, remainder, run_length,
    wrapped,
)
from numc.runtime.gpu.languages import at_least, barrier, gl, gluon
from numc.runtime.gpu.launching import check, largest_magnitude, subview
from numc.runtime.gpu.tiled_product import Groups, Operand
'''
_EPOCH = (1980, 1, 1, 0, 0, 0)


class ProgramText:
    """Makes the code of a module after the stage ``vector``."""

    def __enter__(self) -> ProgramText:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        pass

    def begin(self, module: ir.Module, complete: Collection[str]) -> None:
        """There is nothing to begin with: kernels are written as they are launched."""

    def finish(self, module: ir.Module) -> bytes:
        """Return the archive. Raises NumcError, which names every operation that has no kernel."""
        text, written = program_text(module)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo(TEXT, _EPOCH), text)
            for number, constant in enumerate(written.constants):
                array = io.BytesIO()
                np.save(array, constant, allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(CONSTANTS.format(number), _EPOCH), array.getvalue())
        return file.getvalue()


def program_text(module: ir.Module) -> tuple[str, Written]:
    """Return the text of a module after the stage ``vector``. Raises NumcError for operations without a kernel."""
    symbols = {ir.StringAttr(op.attributes["sym_name"]).value: op.operation for op in module.body.operations}
    constants = {name: op for name, op in symbols.items() if op.name in ("memref.global", "llvm.mlir.global")}
    main = linalg.main(module.operation)
    with module.context, ir.Location.unknown():
        written = Host(constants).function(main)
    if written.unknown:
        raise no_kernel(written.unknown)
    kernels = [text.replace("{name}", name) for text, name in written.kernels.items()]
    arguments = [f"a{n}" for n in range(len(main.regions[0].blocks[0].arguments))]
    host = "\n".join([f"def main({', '.join(['run', *arguments])}):", *written.lines])
    messages = f"MESSAGES = {tuple(written.messages)!r}"
    return "\n\n\n".join([_HEAD.rstrip("\n") + f"\n\n{messages}", *kernels, host]) + "\n", written
