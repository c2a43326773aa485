"""AVX2 with FMA (x86-64-v3): vectors of eight lanes in sixteen registers."""

from dataclasses import replace

from numc.passes.kernels.isa.instruction_set import Tile
from numc.passes.kernels.isa.sse42 import SSE42

AVX2 = replace(SSE42, name="avx2", width=8, tile=Tile(width=8, vectors=2, rows=4), fma=True)
