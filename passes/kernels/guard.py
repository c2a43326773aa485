"""The guard of a cheap sequence: the decision for one micro-tile and one block of k whether it is exact.

Bounds are on biased exponents. A product is below 2^(ea + eb + 2); with K of them and the accumulator at entry every
partial sum is below 2^(max(ea + eb + 2 + log2 K, ec + 1) + 2), the last 2 covering the growth by rounding (monotone
rounding of multiples for one part, a factor below e for compound formats and K <= 2^15). With segments, K is at most
their size, and the accumulators at entry are the sums of a segment that goes on from the block before. Where overflow
is watched, only these are bounded.
"""

from __future__ import annotations

from numc.numerics.binary32 import INFINITY
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.datapaths.datapath import Guard
from numc.passes.kernels.kernel import Kernel
from numc.passes.kernels.ssa import PTR, Value

# The smallest non-zero magnitude, less one, and the largest one, of rows and of lanes: encodings.
RANGES = dict.fromkeys(("rlow", "rhigh", "llow", "lhigh"), "i32")
_BIAS, _MINUS_ZERO = 127, 0x80000000


def guard_text(kernel: Kernel, limits: Guard) -> str:
    """The function ``@<kernel>_guard``: whether the cheap sequence is exact, given the ranges and the tile."""
    f = Function(f"{kernel.name}_guard", {**RANGES, "tile": PTR}, "i1")
    high, zeros = _accumulators(f, kernel)

    def exponent(encoding: Value) -> Value:
        return f.binary("shrui", encoding, f.int(23))

    def product(a: Value, b: Value) -> Value:
        return f.binary("subi", f.binary("subi", f.binary("addi", a, b), f.int(_BIAS)), f.int(_BIAS))

    def both(a: Value, b: Value) -> Value:
        return f.binary("andi", a, b)

    # Zero operands only: the stored minimum is all ones; its exponent then reads as huge, which is what is wanted.
    least, most = ([exponent(f[name]) for name in names] for names in (("rlow", "llow"), ("rhigh", "lhigh")))
    bound = f.binary("addi", f.binary("subi", exponent(high), f.int(_BIAS)), f.int(1))
    if not limits.entry:
        bound = f.binary("maxsi", f.binary("addi", product(*most), f.int(kernel.growth)), bound)
    holds = f.compare("sle", bound, f.int(limits.largest - 2))
    holds = both(holds, f.compare("sge", product(*least), f.int(limits.product)))
    if limits.spread is not None:
        apart = f.binary("subi", product(*most), product(*least))
        holds = both(holds, f.compare("sle", apart, f.int(limits.spread)))
    for name in ("rhigh", "lhigh"):
        below = INFINITY if limits.operands is None else (limits.operands + _BIAS) << 23
        holds = both(holds, f.compare("ult", f[name], f.int(below)))
    if not limits.minus_zero:
        holds = both(holds, f.compare("eq", zeros, f.int(0)))
    if limits.least > -149:
        holds = both(holds, f.compare("sge", least[1], f.int(limits.least + _BIAS)))
    if limits.normal:
        holds = both(holds, both(*(f.compare("ne", x, f.int(0)) for x in least)))
    return f.function(holds)


def _accumulators(f: Function, kernel: Kernel) -> tuple[Value, Value]:
    """The largest magnitude of the sums at entry, an encoding, and whether one of them is -0 (not 0 then)."""
    code, count = f.lanes(kernel.tile.width), kernel.accumulators
    # Where no segment goes on, every sum begins at +0.
    start, size = (0, count) if kernel.segment is None else (count, count if kernel.carries_segments else 0)
    with f.carry(0, size, kernel.tile.width, [code.int(0), code.int(0)]) as loop:
        high, zeros = loop.values
        bits = code.cast("bitcast", code.load(f.at(f.at(f["tile"], start), loop.index)), "i32")
        magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF))
        # -0 would become +0 in the cheap sequence.
        minus_zero = code.cast("extui", code.compare("eq", bits, code.int(_MINUS_ZERO)), "i32")
        loop.next = [code.binary("maxui", high, magnitude), code.binary("ori", zeros, minus_zero)]
    return code.reduce("maxui", loop.results[0]), code.reduce("or", loop.results[1])


def magnitude_range(code: Code, bits: Value, low: Value, high: Value) -> tuple[Value, Value]:
    """Append the update of the smallest non-zero (less one) and the largest magnitude by encodings; returns both."""
    magnitude = code.binary("andi", bits, code.int(0x7FFFFFFF))
    # x - 1 as unsigned turns a zero into the largest value: it then never is the minimum.
    less_one = code.binary("subi", magnitude, code.int(1))
    return code.binary("minui", low, less_one), code.binary("maxui", high, magnitude)
