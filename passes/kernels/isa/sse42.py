"""SSE4.2 (x86-64-v2): vectors of four lanes, no FMA."""

from dataclasses import replace

from numc.passes.kernels.isa.instruction_set import prefetch_line
from numc.passes.kernels.isa.portable import PORTABLE

SSE42 = replace(PORTABLE, name="sse4.2", prefetch=prefetch_line)  # PREFETCHT0
