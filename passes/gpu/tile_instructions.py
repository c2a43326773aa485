"""GPUs as the plan and the datapaths see them: an FMA that is an instruction, and no flags or modes of a processor."""

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile
from numc.passes.kernels.ssa import Value

LARGER_MAGNITUDE = "llvm.nvvm.fmax.xorsign.abs.f"
"""The larger magnitude of two numbers, with the product of their signs."""


def _at_least(code: Code, x: Value, least: float) -> Value:
    return code.intrinsic(LARGER_MAGNITUDE, x, code.f32(least), result=x.type)


TILES = InstructionSet(
    "tiles",
    width=4,
    registers=255,
    tile=Tile(width=4, vectors=2, rows=4),
    fma=True,
    flushes_rounded=False,
    at_least=_at_least,
)
