"""GPUs of NVIDIA and AMD, by Triton: one target, whose program is the same text for all of them."""

from __future__ import annotations

from collections.abc import Callable

from numc.passes.gpu.tile_instructions import TILES
from numc.passes.kernels.backend import Backend, CodeGenerator, Lower, Making, Target


def _generator() -> CodeGenerator:
    raise AssertionError("kernels of GPUs are written with the program")


def _making() -> Callable[[Target, str, Lower], Making]:
    from numc.passes.gpu.program_text import ProgramText

    return lambda target, entry, lower: ProgramText()


GPU = Backend("gpu", _generator, _making, "", "compute capability 8.0 or gfx90a", packages=("torch-mlir",))

TARGETS = (Target("cuda", GPU, TILES, (), ""),)
