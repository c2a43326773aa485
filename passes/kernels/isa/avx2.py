"""AVX2 with FMA (x86-64-v3): vectors of eight lanes in sixteen registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import Elementary, Tile, registers
from numc.passes.kernels.isa.sse42 import SSE42
from numc.passes.kernels.ssa import Type, Value

_UNIT = -149  # the exponent of the last place of the smallest binary32 numbers
_DOWN = -23  # so many places down, whole numbers are normal, and _UNIT is an exponent of normal numbers
_LARGEST = (2 - 2.0**-23) * 2.0**127


def permute(code: Code, x: Value, index: Value) -> Value:
    """VPERMPS."""
    return code.intrinsic("llvm.x86.avx2.permps", x, index, result=x.type)


def shifted_down(code: Code, x: Value, amount: Value) -> Value:
    """VPSRLVD."""
    return code.intrinsic("llvm.x86.avx2.psrlv.d.256", x, amount, result=x.type)


def cut_scaled(code: Code, n: Value, exponent: Value, most: int) -> Value:
    """Without the bits that are below every binary32 number, cut to 24 bits, and times powers, which is exact."""
    reached = code.binary("maxsi", exponent, code.int(_UNIT))
    size = shifted_down(code, code.magnitude(n), code.binary("subi", reached, exponent))
    # The highest bit that has no place, 24 below the first one, is cleared, so that the conversion rounds down.
    over = code.binary("xori", code.binary("shrui", size, code.int(24)), code.int(-1))
    number = code.cast("sitofp", code.binary("andi", size, over), "f32")
    first = code.int(_DOWN) if most <= 127 + _DOWN else code.binary("shrsi", reached, code.int(1))
    for power in (first, code.binary("subi", reached, first)):
        field = code.binary("shli", code.binary("addi", power, code.int(127)), code.int(23))
        number = code.binary("mulf", number, code.cast("bitcast", field, "f32"))
    number = code.intrinsic("llvm.x86.avx.min.ps.256", number, code.f32(_LARGEST), result=number.type)
    sign = code.binary("andi", n, code.int(1 << 31))
    return code.cast("bitcast", code.binary("ori", code.cast("bitcast", number, "i32"), sign), "f32")


def half_product(code: Code, a: Value, b: Value) -> Value:
    """VPMADDWD: the products of the low halves of the words `a` and `b`, and of the high ones, added."""
    pairs = Type("i16", 2 * a.type.lanes)
    x, y = (code.reinterpret(v, pairs) for v in (a, b))
    return code.intrinsic("llvm.x86.avx2.pmadd.wd", x, y, result=a.type)


def dot_pairs(code: Code, acc: Value, a: Value, b: Value) -> Value:
    """VPMADDWD, and an addition."""
    return code.binary("addi", acc, half_product(code, a, b))


def lookup(code: Code, table: Sequence[float], index: Value) -> Value:
    """VPERMPS."""
    numbers = code.table(table, "f32")
    return code.joined([permute(code, numbers, each) for each in registers(code, index, 256)])


AVX2 = replace(
    SSE42,
    name="avx2",
    width=8,
    tile=Tile(width=8, vectors=2, rows=4),
    one_fma=Tile(width=8, vectors=3, rows=4),
    word_sums=Tile(width=8, vectors=2, rows=5),
    unrolled=8,
    fma=True,
    constraint="x",
    shifted_down=shifted_down,
    half_product=half_product,
    cut_scaled=cut_scaled,
    dot_pairs=dot_pairs,
    permute=permute,
    elementary=Elementary(8, lookup),
)
