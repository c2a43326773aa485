"""AVX-512 (F, BW, CD, DQ, VL; x86-64-v4): sixteen lanes in 32 registers, static rounding of instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from numc.passes.kernels.builder import Code
from numc.passes.kernels.isa.avx2 import AVX2
from numc.passes.kernels.isa.instruction_set import Exponential, Tile, registers
from numc.passes.kernels.ssa import Type, Value

# Static rounding of an instruction (Intel SDM, _MM_FROUND_*): the direction, and no exceptions.
_DIRECTIONS = {"down": 9, "up": 10, "zero": 11}
_CURRENT = 4  # _MM_FROUND_CUR_DIRECTION
_SMALLER_MAGNITUDE, _LARGER_MAGNITUDE = 2, 3  # what VRANGEPS chooses; the sign is that of the first operand
_SPECIAL = 0x01 | 0x08 | 0x10 | 0x20 | 0x80  # of VFPCLASSPS: quiet NaN, infinities, subnormal numbers, signalling NaN
_XOR, _MAJORITY = 0x96, 0xE8  # truth tables of VPTERNLOGD
_registers = partial(registers, bits=512)


def fma_rounded(code: Code, a: Value, b: Value, c: Value, direction: str) -> Value:
    """VFMADDPS with static rounding."""
    rounding = code.immediate(_DIRECTIONS[direction])
    return code.intrinsic("llvm.x86.avx512.vfmadd.ps.512", a, b, c, rounding, result=a.type)


def _range(code: Code, x: Value, bound: float, choice: int) -> Value:
    limit, what, every, current = (
        code.f32(bound), code.immediate(choice), code.immediate(-1, "i16"), code.immediate(_CURRENT)
    )  # fmt: skip
    name = "llvm.x86.avx512.mask.range.ps.512"
    return code.intrinsic(name, x, limit, what, x, every, current, result=x.type)


def clamp(code: Code, x: Value, largest: float) -> Value:
    """VRANGEPS: the smaller magnitude of both, with the sign of `x`."""
    return _range(code, x, largest, _SMALLER_MAGNITUDE)


def at_least(code: Code, x: Value, least: float) -> Value:
    """VRANGEPS: the larger magnitude of both, with the sign of `x`."""
    return _range(code, x, least, _LARGER_MAGNITUDE)


def full_adder(code: Code, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    """VPTERNLOGD, twice."""
    total, carry = (
        code.intrinsic("llvm.x86.avx512.pternlog.d.512", a, b, c, code.immediate(table), result=a.type)
        for table in (_XOR, _MAJORITY)
    )
    return total, carry


def distance_bit(code: Code, x: Value, y: Value) -> Value:
    """VGETEXPPS gives infinities for zeros and infinities: a difference of these becomes -2^31, which shifts 1 out."""
    every, current = code.immediate(-1, "i16"), code.immediate(_CURRENT)
    exponents = [
        code.intrinsic("llvm.x86.avx512.mask.getexp.ps.512", v, v, every, current, result=v.type) for v in (x, y)
    ]
    difference, ints = code.binary("subf", *exponents), code.ty("i32")
    name = "llvm.x86.avx512.mask.cvtps2dq.512"
    number = code.intrinsic(name, difference, code.int(0), every, current, result=ints)
    shift = code.binary("minsi", code.magnitude(number), code.int(31))
    return code.intrinsic("llvm.x86.avx512.psllv.d.512", code.int(1), shift, result=ints)


def shifted_down(code: Code, x: Value, amount: Value) -> Value:
    """VPSRLVD."""
    return code.intrinsic("llvm.x86.avx512.psrlv.d.512", x, amount, result=x.type)


def cut_scaled(code: Code, n: Value, exponent: Value, most: int) -> Value:
    """VCVTDQ2PS and VSCALEFPS with static rounding: what was cut twice has been cut once."""
    f32, zero = code.ty("f32"), code.immediate(_DIRECTIONS["zero"])
    number = code.intrinsic("llvm.x86.avx512.sitofp.round.v16f32.v16i32", n, zero, result=f32)
    name, every = "llvm.x86.avx512.mask.scalef.ps.512", code.immediate(-1, "i16")
    return code.intrinsic(name, number, code.cast("sitofp", exponent, "f32"), number, every, zero, result=f32)


def half_product(code: Code, a: Value, b: Value) -> Value:
    """VPMADDWD: the products of the low halves of the words `a` and `b`, and of the high ones, added."""
    pairs = Type("i16", 2 * a.type.lanes)
    x, y = (code.reinterpret(v, pairs) for v in (a, b))
    return code.intrinsic("llvm.x86.avx512.pmaddw.d.512", x, y, result=a.type)


def dot_pairs(code: Code, acc: Value, a: Value, b: Value) -> Value:
    """VPMADDWD, and an addition."""
    return code.binary("addi", acc, half_product(code, a, b))


def permute(code: Code, x: Value, index: Value) -> Value:
    """VPERMPS."""
    return code.intrinsic("llvm.x86.avx512.permvar.sf.512", x, index, result=x.type)


def lookup(code: Code, table: Sequence[float], index: Value) -> Value:
    """VPERMI2PS of two registers, which ignores all other bits of an index; a pair of vectors takes two."""
    low, high = (code.table(part, "f32") for part in (table[:16], table[16:]))
    name = "llvm.x86.avx512.vpermi2var.ps.512"
    return code.joined([code.intrinsic(name, low, each, high, result=low.type) for each in _registers(code, index)])


def scale(code: Code, x: Value, power: Value) -> Value:
    """VSCALEFPS."""
    every, current = code.immediate(-1, "i16"), code.immediate(_CURRENT)
    name, pairs = "llvm.x86.avx512.mask.scalef.ps.512", zip(_registers(code, x), _registers(code, power), strict=True)
    return code.joined([code.intrinsic(name, a, b, a, every, current, result=a.type) for a, b in pairs])


def is_special(code: Code, x: Value) -> Value:
    """VFPCLASSPS."""
    name, lanes = "llvm.x86.avx512.fpclass.ps.512", code.lanes(16).ty("i1")
    masks = [code.intrinsic(name, v, code.immediate(_SPECIAL), result=lanes) for v in _registers(code, x)]
    return code.joined(masks)


def reciprocal(code: Code, x: Value) -> Value:
    """VRCP14PS."""
    name, every = "llvm.x86.avx512.rcp14.ps.512", code.immediate(-1, "i16")
    return code.joined([code.intrinsic(name, v, v, every, result=v.type) for v in _registers(code, x)])


AVX512 = replace(
    AVX2,
    name="avx512",
    width=16,
    registers=32,
    tile=Tile(width=16, vectors=2, rows=8),
    one_fma=None,
    word_sums=None,
    unrolled=1,  # LLVM would load so much ahead that it spills registers
    dot_pairs=dot_pairs,
    clamp=clamp,
    full_adder=full_adder,
    distance_bit=distance_bit,
    constraint="v",
    shifted_down=shifted_down,
    half_product=half_product,
    cut_scaled=cut_scaled,
    fma_rounded=fma_rounded,
    at_least=at_least,
    permute=permute,
    masks=True,
    elementary=Exponential(32, lookup, scale, is_special, reciprocal),
)
