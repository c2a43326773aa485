"""A program of any backend, from what its file holds."""

from __future__ import annotations

from typing import Any

from numc.runtime.container import Contents
from numc.runtime.gpu.archive_names import CUDA


def program_of(contents: Contents) -> Any:
    """Return the program: a Program, or a GpuProgram for target ``cuda``. Raises NumcError if it cannot run here."""
    if contents.abi.target == CUDA:
        from numc.runtime.gpu.gpu_program import GpuProgram

        return GpuProgram(contents)
    from numc.runtime.program import Program

    return Program(contents)
