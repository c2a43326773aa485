"""AVX2 with FMA (x86-64-v3): vectors of eight lanes in sixteen registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.instruction_set import Elementary, Tile, held, registers
from numc.passes.kernels.isa.sse42 import SSE42
from numc.passes.kernels.ssa import Type, Value


def permute(code: Code, x: Value, index: Value) -> Value:
    """VPERMPS."""
    return code.intrinsic("llvm.x86.avx2.permps", x, index, result=x.type)


def shifted_down(code: Code, x: Value, amount: Value) -> Value:
    """VPSRLVD."""
    return code.intrinsic("llvm.x86.avx2.psrlv.d.256", x, amount, result=x.type)


def barrier(code: Code, values: Sequence[Value]) -> list[Value]:
    """An empty assembler text: LLVM, left free, interleaves so much that it spills registers."""
    return code.assembly("", held(values, "x"), *values)


def dot_pairs(code: Code, acc: Value, a: Value, b: Value) -> Value:
    """VPMADDWD, and an addition: the products of the low and of the high halves of the words `a` and `b`."""
    pairs = Type("i16", 2 * acc.type.lanes)
    x, y = (code.reinterpret(v, pairs) for v in (a, b))
    return code.binary("addi", acc, code.intrinsic("llvm.x86.avx2.pmadd.wd", x, y, result=acc.type))


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
    barrier=barrier,
    shifted_down=shifted_down,
    dot_pairs=dot_pairs,
    permute=permute,
    elementary=Elementary(8, lookup),
)
