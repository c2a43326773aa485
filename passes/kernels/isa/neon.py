"""NEON (AArch64): vectors of four lanes in 32 registers, and FMAs that read one factor from a lane of a register.

An FMA overwrites its addend. The mode that replaces subnormal results by zeros looks at them before their rounding, and
a number just below 2^-126 becomes a zero that x86 rounds to 2^-126: datapaths that flush do without it.
"""

from __future__ import annotations

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import InstructionSet, Tile, prefetch_line
from numc.passes.kernels.ssa import Value

_SIGN = 0x80000000


def larger(code: Code, x: Value, y: Value) -> Value:
    """FMAXNM."""
    return code.intrinsic("llvm.aarch64.neon.fmaxnm.v4f32", x, y, result=x.type)


def clamp(code: Code, x: Value, largest: float) -> Value:
    """FMINNM and FMAXNM."""
    high, low = code.f32(largest), code.f32(-largest)
    return larger(code, code.intrinsic("llvm.aarch64.neon.fminnm.v4f32", x, high, result=x.type), low)


def signed(code: Code, x: Value, y: Value) -> Value:
    """BIT: the sign of one register, and the other bits of another."""
    bits, of_y = (code.cast("bitcast", v, "i32") for v in (x, y))
    kept, sign = (code.binary("andi", v, code.int(m)) for v, m in ((bits, _SIGN - 1), (of_y, _SIGN)))
    return code.cast("bitcast", code.binary("ori", kept, sign), "f32")


def full_adder(code: Code, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """EOR twice, and BSL: the carry is `c` where `a` and `b` differ, and else `a`."""
    half = code.binary("xori", a, b)
    same = code.binary("xori", half, code.int(-1))
    carry = code.binary("ori", code.binary("andi", half, c), code.binary("andi", same, a))
    return code.binary("xori", half, c), carry


NEON = InstructionSet(
    "neon",
    width=4,
    registers=32,
    tile=Tile(width=4, vectors=2, rows=8),
    fma=True,
    overwrites_addend=True,
    by_lane=True,
    flushes_rounded=False,
    clamp=clamp,
    larger=larger,
    signed=signed,
    full_adder=full_adder,
    constraint="w",
    prefetch=prefetch_line,
)
