"""AVX2 with FMA (x86-64-v3): vectors of eight lanes in sixteen registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import Tile
from numc.passes.kernels.isa.sse42 import SSE42
from numc.passes.kernels.ssa import Value


def permute(code: Code, x: Value, index: Value) -> Value:
    """VPERMPS."""
    return code.intrinsic("llvm.x86.avx2.permps", x, index, result=x.type)


def barrier(code: Code, values: Sequence[Value]) -> list[Value]:
    """An empty assembler text: LLVM, left free, interleaves so much that it spills registers."""
    constraints = ",".join(["=x"] * len(values) + [str(n) for n in range(len(values))])
    return code.assembly("", constraints, *values)


AVX2 = replace(
    SSE42, name="avx2", width=8, tile=Tile(width=8, vectors=2, rows=4), fma=True, barrier=barrier, permute=permute
)
