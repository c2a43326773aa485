"""AVX-512 with VNNI: dot products of two 16-bit or four 8-bit integers."""

from __future__ import annotations

from dataclasses import replace

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.avx512 import AVX512
from numc.passes.kernels.ssa import Type, Value


def dot_pairs(code: Code, acc: Value, a: Value, b: Value) -> Value:
    """VPDPWSSD: the i32 `acc` plus the products of the low and of the high halves of the words `a` and `b`."""
    pairs = Type("i16", 2 * acc.type.lanes)
    x, y = (code.reinterpret(v, pairs) for v in (a, b))
    return code.intrinsic("llvm.x86.avx512.vpdpwssd.512", acc, x, y, result=acc.type)


def dot_quads(code: Code, acc: Value, a: Value, b: Value) -> Value:
    """VPDPBUSD: the i32 `acc` plus the products of the bytes of `a`, unsigned, and of `b`, signed; it wraps."""
    bytes_ = Type("i8", 4 * acc.type.lanes)
    x, y = (code.reinterpret(v, bytes_) for v in (a, b))
    return code.intrinsic("llvm.x86.avx512.vpdpbusd.512", acc, x, y, result=acc.type)


AVX512_VNNI = replace(AVX512, name="avx512_vnni", dot_pairs=dot_pairs, dot_quads=dot_quads)
