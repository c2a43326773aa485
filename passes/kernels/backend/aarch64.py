"""AArch64: its target. Every processor has the vectors of 128 bits that kernels are written for."""

from __future__ import annotations

from collections.abc import Callable

from numc.passes.kernels.backend import Backend, CodeGenerator, Lower, Making, Target
from numc.passes.kernels.isa.neon import NEON


def _generator() -> CodeGenerator:
    from numc.passes.kernels.backend.aarch64_code import GENERATOR

    return GENERATOR


def _making() -> Callable[[Target, str, Lower], Making]:
    from numc.passes.kernels.backend.aarch64_code import object_code

    return object_code


AARCH64 = Backend("aarch64", _generator, _making, "aarch64", "asimd")

TARGETS = (Target("aarch64", AARCH64, NEON, (), "generic"),)
