"""AMX: eight registers of 16 rows of 64 bytes, and products of two of them that are added to a third.

A product reads 16 words of every row of its first operand, one after the other along k, and of its second operand 16
rows, of which each has the words of one step for 16 lanes: what packed panels of words are made of (layout.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.isa.avx512_vnni import AVX512_VNNI
from numc.passes.kernels.isa.instruction_set import Matrix, Tile
from numc.passes.kernels.ssa import Value

# The palette in byte 0, the bytes of the rows of each register from byte 16 on, how many rows it has from byte 48 on.
_CONFIGURATION = [1, 0, 0, 0, *[64 << 16 | 64] * 4, 0, 0, 0, 0, *[0x10101010] * 2, 0, 0]


def _register(code: Code, number: int) -> Value:
    return code.immediate(number, "i8")


def _begin(f: Function) -> None:
    """LDTILECFG, with all registers of their largest size."""
    words = f.alloca(len(_CONFIGURATION), "i32")
    for n, word in enumerate(_CONFIGURATION):
        f.store(f.int(word), f.at(words, n, "i32"))
    f.instruct("llvm.x86.ldtilecfg", words)


def _end(f: Function) -> None:
    """TILERELEASE: what a thread of another program finds in the registers costs time in every change of threads."""
    f.instruct("llvm.x86.tilerelease")


def _load(code: Code, register: int, address: Value, pitch: int) -> None:
    """TILELOADD."""
    code.instruct("llvm.x86.tileloadd64", _register(code, register), address, code.number(4 * pitch))


def _store(code: Code, register: int, address: Value, pitch: int) -> None:
    """TILESTORED."""
    code.instruct("llvm.x86.tilestored64", _register(code, register), address, code.number(4 * pitch))


def _product(name: str) -> Callable[[Code, int, int, int], None]:
    def append(code: Code, c: int, a: int, b: int) -> None:
        code.instruct(f"llvm.x86.{name}", *(_register(code, n) for n in (c, a, b)))

    return append


_TILES = Matrix(
    tile=Tile(width=16, vectors=2, rows=32, k_block=1024),
    size=16,
    begin=_begin,
    end=_end,
    load=_load,
    store=_store,
    bf16=_product("tdpbf16ps"),
    unsigned_signed=_product("tdpbusd"),
    signed_unsigned=_product("tdpbsud"),
)

# Loads of six broadcasts and four vectors for 24 FMAs, which begin in pairs: fewer for each than with eight and two.
AMX = replace(AVX512_VNNI, name="amx", one_fma=Tile(width=16, vectors=4, rows=6), matrix=_TILES)
