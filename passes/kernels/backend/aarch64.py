"""AArch64: its target. Every processor has the vectors of 128 bits that kernels are written for."""

from __future__ import annotations

from numc.passes.kernels.backend import Backend, CodeGenerator, Target
from numc.passes.kernels.isa.neon import NEON


def _generator() -> CodeGenerator:
    from numc.passes.kernels.backend.aarch64_code import GENERATOR

    return GENERATOR


AARCH64 = Backend("aarch64", _generator, "aarch64", "asimd", by_engine=False)

TARGETS = (Target("aarch64", AARCH64, NEON, (), "generic"),)
