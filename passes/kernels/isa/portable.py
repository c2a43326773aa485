"""No instruction beyond what LLVM generates for any processor: vectors of four lanes, and no FMA."""

from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile

PORTABLE = InstructionSet("portable", width=4, registers=16, tile=Tile(width=4, vectors=2, rows=4), fma=False)
