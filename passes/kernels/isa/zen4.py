"""AMD's processors since Zen 4: AVX-512 with VNNI and BF16, and units for additions beside those for FMAs and products.

Zen 4 begins one FMA or product, and one addition, of sixteen lanes in every cycle. Both units give way to loads into
registers, but not to operands that are broadcast from memory, which tiles of one vector have: each is used once.
Of instructions that read three registers, as FMAs, VPERMI2PS and VPTERNLOGD do, one begins in a cycle: beside FMAs, a
look-up in one register takes no time, and one in two registers a cycle and a quarter.
VDPBF16PS is as fast as an FMA, which does half of its work; on Intel's processors two FMAs are faster.
"""

from __future__ import annotations

from dataclasses import replace

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.avx512_vnni import AVX512_VNNI
from numc.passes.kernels.isa.instruction_set import Tile
from numc.passes.kernels.ssa import Type, Value


def dot_bf16(code: Code, acc: Value, a: Value, b: Value) -> Value:
    """VDPBF16PS."""
    pairs = Type("bf16", 2 * acc.type.lanes)
    x, y = (code.reinterpret(v, pairs) for v in (a, b))
    return code.intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", acc, x, y, result=acc.type)


ZEN4 = replace(AVX512_VNNI, name="zen4", adders=Tile(width=16, vectors=1, rows=16), dot_bf16=dot_bf16)
