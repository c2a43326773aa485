"""SSE4.2 (x86-64-v2): vectors of four lanes, no FMA."""

from dataclasses import replace

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.portable import PORTABLE
from numc.passes.kernels.ssa import Value


def prefetch(code: Code, address: Value) -> None:
    """PREFETCHT0: into all levels of the cache."""
    code.effect("llvm.intr.prefetch", address, attributes="rw = 0 : i32, hint = 3 : i32, cache = 1 : i32")


SSE42 = replace(PORTABLE, name="sse4.2", prefetch=prefetch)
