"""GPUs as the plan and the datapaths see them: an FMA that is an instruction, and no flags or modes of a processor."""

from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile

TILES = InstructionSet(
    "tiles", width=4, registers=255, tile=Tile(width=4, vectors=2, rows=4), fma=True, flushes_rounded=False
)
