"""The datapath ``staged`` in binary32 and 32-bit integers, which is exact under a guard.

Products are cut to integers as in cut_integers.py, and S is their sum, in units of 2^(P - bits) for their largest
exponent P. Against M, the larger one of P and the exponent of the accumulator, S is shifted down by M - P bits. What is
shifted out are the lowest bits of the sum, which counts 2^(M - sum - 1): T = (S >> M - P + start) * 2^k + low, where
start is the accumulator, floored to multiples of 2^(M - bits), and k = sum + 1 - bits. Binary32 has the upper bits of T
and the lower ones, so that their sum is rounded once.
"""

from __future__ import annotations

from dataclasses import replace

from numc.numerics.operators import FP32, Fma
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks import cut_integers
from numc.passes.kernels.datapaths.blocks.products import Products
from numc.passes.kernels.datapaths.datapath import Accumulators, Guard, Micro
from numc.passes.kernels.setting import Setting
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32

_SPLIT = 8  # the bits of the upper part of a sum that are added with the lower ones
_LEAST = 30  # the bits that a sum keeps, at least: it has up to 31 above those below

#: Of every accumulator, the largest power of two of its products, as bits, and their sum as an integer.
_Stage = tuple[list[Value], list[Value]]


def limits(s: Setting) -> Guard | None:
    """When it is exact; None for operators that it does not serve."""
    path = s.fma.datapath
    below = path["sum"] + 1 - path["bits"]
    fits = cut_integers.cuts_exactly(s.fma) and (path["l"] * 4 + 2) << path["bits"] < 2**31
    kept = path["bits"] > _SPLIT and path["sum"] >= _LEAST and 1 <= below <= F32.significand_bits + 1 - _SPLIT
    if not fits or not kept or s.fma.acc != FP32:
        return None
    guard = cut_integers.cut_guard(s.fma)
    # The last bit of a sum is a normal number, and so are all sums but zero.
    return replace(guard, product=max(guard.product, path["sum"] + 1 - 126))


def block(m: Micro, products: Products, sums: Accumulators) -> Accumulators:
    """Append the sums of a block of products and of accumulators."""
    code, fma, ways = m.code, m.setting.fma, 1 + m.setting.fma.datapath["apart"]
    stages = [_stage(m, products.share(n, ways), len(sums)) for n in range(ways)]
    results = []
    for n, c in enumerate(sums):
        powers, totals = ([each[n] for each in some] for some in zip(*stages, strict=True))
        highest = powers[0] if ways == 1 else code.binary("maxsi", *powers)
        total = totals[0]
        if ways > 1:  # each is floored to the units of the larger one
            shifted = [_shifted(code, x, _difference(code, highest, p)) for x, p in zip(totals, powers, strict=True)]
            total = code.binary("addi", *shifted)
        result = _with_accumulator(code, fma, highest, total, c)
        # Without a product that is not zero: the accumulator, and +0 for -0.
        alone = code.compare("eq", highest, code.int(0))
        results.append(code.select(alone, code.binary("addf", c, code.f32(0.0)), result))
    return results


def _stage(m: Micro, share: Products, count: int) -> _Stage:
    powers = cut_integers.highest_powers(m, share, count)
    scales = cut_integers.scales_of(m, powers)
    return powers, cut_integers.cut_sums(m, share, scales, [m.code.int(0)] * count)


def _with_accumulator(code: Code, fma: Fma, highest: Value, total: Value, c: Value) -> Value:
    """The sum of an integer, which counts the last bit below the power `highest` (its bits), and of an accumulator."""
    bits, below = fma.datapath["bits"], fma.datapath["sum"] + 1 - fma.datapath["bits"]
    own = code.binary("andi", code.cast("bitcast", c, "i32"), code.int(F32.infinity))
    top = code.binary("maxsi", highest, own)
    distance = _difference(code, top, highest)
    start = _floored(code, c, code.cast("bitcast", code.binary("subi", code.int(_one(bits)), top), "f32"))
    if fma.datapath["apart"]:
        far = code.compare("slt", own, code.binary("subi", top, code.int(bits + 1 << F32.significand_bits)))
        start = code.select(far, code.int(0), start)
    upper = code.binary("addi", _shifted(code, total, distance), start)
    # The bits of the total right below those of `upper`.
    more = code.binary("subi", distance, code.int(below))
    down = code.binary("minsi", code.binary("maxsi", more, code.int(0)), code.int(31))
    up = code.binary("maxsi", code.binary("subi", code.int(0), more), code.int(0))
    low = code.binary("shli", code.binary("shrsi", total, down), up)
    low = code.binary("andi", low, code.int((1 << below) - 1))
    spare = _spare_bits(code, upper, bits)
    low = code.binary("shli", code.binary("shrui", low, spare), spare)
    high = code.cast("sitofp", code.binary("shrsi", upper, code.int(_SPLIT)), "f32")
    rest = code.binary("shli", code.binary("andi", upper, code.int((1 << _SPLIT) - 1)), code.int(below))
    rest = code.cast("sitofp", code.binary("ori", rest, low), "f32")
    whole = code.binary("addf", code.binary("mulf", high, code.f32(2.0 ** (_SPLIT + below))), rest)
    return code.binary(
        "mulf", whole, code.binary("mulf", code.cast("bitcast", top, "f32"), code.f32(2.0 ** -(bits + below)))
    )


def _one(bits: int) -> int:
    """The bits from which those of a power of two are subtracted: the rest takes the last of `bits` below it to 1."""
    return (2 * F32.bias + bits) << F32.significand_bits


def _difference(code: Code, top: Value, power: Value) -> Value:
    """Append how many powers of two one is above another, both as bits."""
    return code.binary("shrui", code.binary("subi", top, power), code.int(F32.significand_bits))


def _shifted(code: Code, x: Value, distance: Value) -> Value:
    """Append integers that are shifted down, to their signs if it is by 31 bits or more."""
    return code.binary("shrsi", x, code.binary("minsi", distance, code.int(31)))


def _floored(code: Code, c: Value, scale: Value) -> Value:
    """``floor(c * scale)``, where the product of a negative number is not lost below binary32's least one."""
    x = code.binary("mulf", c, scale)
    negative = code.compare("olt", c, code.f32(0.0))
    x = code.select(negative, code.binary("minimumf", x, code.f32(-(2.0**-100))), x)
    return code.cast("fptosi", code.unary("math.floor", x), "i32")


def _spare_bits(code: Code, upper: Value, bits: int) -> Value:
    """Append how many of the lowest bits of a sum are beyond those that it keeps below its own exponent.

    upper: the sum without those below. The exponent of a negative number is that of the number below its opposite: it
    has none of these bits if they differ.
    """
    size = code.binary("xori", upper, code.binary("shrsi", upper, code.int(31)))
    power = code.cast("bitcast", code.cast("sitofp", code.binary("shrsi", size, code.int(_SPLIT)), "f32"), "i32")
    exponent = code.binary("shrui", power, code.int(F32.significand_bits))
    return code.binary("maxsi", code.binary("subi", exponent, code.int(F32.bias - _SPLIT - 1 + bits)), code.int(0))
