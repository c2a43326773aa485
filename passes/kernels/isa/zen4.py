"""AMD's processors since Zen 4: AVX-512 with VNNI, and units for additions beside those for FMAs and products.

Zen 4 begins one FMA or product, and one addition, of sixteen lanes in every cycle. Both units give way to loads into
registers, but not to operands that are broadcast from memory, which tiles of one vector have: each is used once.
"""

from __future__ import annotations

from dataclasses import replace

from numc.passes.kernels.isa.avx512_vnni import AVX512_VNNI
from numc.passes.kernels.isa.instruction_set import Tile

ZEN4 = replace(AVX512_VNNI, name="zen4", adders=Tile(width=16, vectors=1, rows=16))
