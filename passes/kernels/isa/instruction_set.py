"""An instruction set: sizes, and instructions with a portable sequence in place of those that it lacks.

An instruction is a function that appends code to a `Code` of `width` lanes. Where the portable sequence computes the
same from the same operands it is the default, and emitters just call the instruction. Where an emitter uses another
algorithm without the instruction, the default is None and the emitter asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.ssa import PTR, Value

#: How many addresses an assembler text may hold: x86-64 has 16 general registers, and some are not free.
_ADDRESSES = 8


@dataclass(frozen=True)
class Tile:
    """Sizes of the blocked loops, in elements; none of them can change a result.

    width: lanes of a vector. vectors, rows: the micro-tile has rows x (vectors * width) accumulators.
    k_block: how many steps of k are packed at a time, a multiple of 32.
    """

    width: int = 16
    vectors: int = 2
    rows: int = 8
    k_block: int = 256

    @property
    def lanes(self) -> int:
        """Lanes of the micro-tile."""
        return self.width * self.vectors


def _clamp(code: Code, x: Value, largest: float) -> Value:
    high, low = code.f32(largest), code.f32(-largest)
    x = code.select(code.compare("olt", x, high), x, high)
    return code.select(code.compare("ogt", x, low), x, low)


def _full_adder(code: Code, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    half = code.binary("xori", a, b)
    carry = code.binary("ori", code.binary("andi", a, b), code.binary("andi", half, c))
    return code.binary("xori", half, c), carry


def _distance_bit(code: Code, x: Value, y: Value) -> Value:
    exponents, finite_nonzero = [], []
    for value in (x, y):
        magnitude = code.binary("andi", code.cast("bitcast", value, "i32"), code.int(0x7FFFFFFF))
        # A subnormal number is as many units of 2^-149 as its encoding says.
        units = code.cast("bitcast", code.cast("sitofp", magnitude, "f32"), "i32")
        small = code.binary("subi", code.binary("shrui", units, code.int(23)), code.int(149))
        field = code.binary("shrui", magnitude, code.int(23))
        tiny = code.compare("slt", magnitude, code.int(1 << 23))
        exponents.append(code.select(tiny, small, field))
        less_one = code.binary("subi", magnitude, code.int(1))
        finite_nonzero.append(code.compare("ult", less_one, code.int(0x7F7FFFFF)))
    difference = code.binary("subi", *exponents)
    magnitude = code.binary("maxsi", difference, code.binary("subi", code.int(0), difference))
    word = code.binary("shli", code.int(1), code.binary("minsi", magnitude, code.int(31)))
    return code.select(code.binary("andi", *finite_nonzero), word, code.int(0))


def _larger(code: Code, x: Value, y: Value) -> Value:
    return code.select(code.compare("ogt", x, y), x, y)


def _signed(code: Code, x: Value, y: Value) -> Value:
    sign = code.binary("andi", code.cast("bitcast", y, "i32"), code.int(0x80000000))
    return code.cast("bitcast", code.binary("ori", code.cast("bitcast", x, "i32"), sign), "f32")


def _shifted_down(code: Code, x: Value, amount: Value) -> Value:
    inside = code.compare("ult", amount, code.int(32))
    return code.select(inside, code.binary("shrui", x, amount), code.int(0))


def prefetch_line(code: Code, address: Value) -> None:
    """The instruction of most processors: into all levels of the cache."""
    code.effect("llvm.intr.prefetch", address, attributes="rw = 0 : i32, hint = 3 : i32, cache = 1 : i32")


def _no_prefetch(code: Code, address: Value) -> None:
    """A processor without the hint reads the line when it is used."""


@dataclass(frozen=True)
class Elementary:
    """Instructions on f32 vectors of one register or two.

    entries: how many binary32 numbers a table has, 8 or 32.
    lookup(code, table, index): those of a table that the lowest bits of i32 name.
    """

    entries: int
    lookup: Callable[[Code, Sequence[float], Value], Value]


@dataclass(frozen=True)
class Exponential(Elementary):
    """These with tables of 32 numbers, and others with which e^x is cheaper than in binary64.

    scale(code, x, power): x * 2^floor(power), rounded once.
    is_special(code, x): whether numbers are NaN, infinite or subnormal (i1).
    reciprocal(code, x): 1 / x, of which at most 2^-14 is wrong.
    """

    scale: Callable[[Code, Value, Value], Value]
    is_special: Callable[[Code, Value], Value]
    reciprocal: Callable[[Code, Value], Value]


Product = Callable[[Code, int, int, int], None]


@dataclass(frozen=True)
class Matrix:
    """Registers of `size` rows of `size` 32-bit words, numbered from 0 to 7, and products of two added to a third.

    tile: the micro-tile of contractions that use them. begin(f), end(f): around all their uses in a function.
    load(code, register, address, pitch), store(...): `pitch` words from one row to the next in memory.
    bf16, unsigned_signed, signed_unsigned (code, c, a, b): C += A B, where words are pairs of bfloat16 numbers, or four
    bytes, those of A, or of B, without a sign. Of bfloat16 numbers, the sums over even and over odd places are kept
    apart, each an FMA after the other from +0, and are then added, and the result to C (arithmetic.md); integers wrap.
    """

    tile: Tile
    size: int
    begin: Callable[[Function], None]
    end: Callable[[Function], None]
    load: Callable[[Code, int, Value, int], None]
    store: Callable[[Code, int, Value, int], None]
    bf16: Product
    unsigned_signed: Product
    signed_unsigned: Product


def registers(code: Code, x: Value, bits: int) -> list[Value]:
    """The vectors of one register of `bits` bits each that `x` is of."""
    lanes = bits // x.type.bits
    return [code.shuffle(x, range(n, n + lanes)) for n in range(0, x.type.lanes, lanes)]


@dataclass(frozen=True)
class InstructionSet:
    """An instruction set as the emitters see it.

    width: f32 lanes of a vector register. registers: how many vector registers there are. tile: the micro-tile that is
    used unless a plan says otherwise. fma: whether a fused multiply-add is an instruction; if not, it is replaced by
    binary64 arithmetic with the same bits (without_fma.py), and cheap sequences made of FMAs are not worth their while.
    one_fma: the micro-tile where a step is one FMA and takes no other registers, if there is room for a larger one.
    word_sums: the micro-tile for long sums of products of words, where a product takes a register beside the sums.
    unrolled: how many steps of one FMA follow each other without a jump, in whole tiles.
    adders: the micro-tile for roundings by additions, where these have units of their own beside those of FMAs.
    overwrites_addend: whether an FMA leaves its result where its addend was; one that is needed again is copied.
    by_lane: whether FMAs and products read a factor from one lane of a register, so that vectors of rows need no
        broadcasts.
    constraint: the letter of vector registers in an assembler text; "" where code has no barriers.
    flushes_rounded: whether the mode that replaces subnormal results by zeros looks at them after their rounding to 24
        bits, as arithmetic.md has it, or before.

    clamp(code, x, largest): x limited to the magnitude `largest`; NaN stays or becomes a limit.
    larger(code, x, y): the larger one of two numbers, neither of which is NaN.
    signed(code, x, y): a number `x` that is not negative, or has the sign of `y`, with the sign of `y`.
    full_adder(code, a, b, c): the sum and the carry of three words of bits.
    shifted_down(code, x, amount): words of bits (i32) down by numbers (i32); 0 beyond 31.
    distance_bit(code, x, y): the word ``1 << min(abs(exponent(x) - exponent(y)), 31)`` of two f32 values, or 0 unless
        both are finite and not zero.
    prefetch(code, address): a hint that the cache line at `address`, which need not exist, is read soon.

    fma_rounded(code, a, b, c, direction): ``a * b + c`` rounded once in a direction: "down", "up" or "zero".
    at_least(code, x, least): whichever of x and `least` has the larger magnitude, with the sign of x.
    cut_scaled(code, n, exponent, most): ``n * 2^exponent`` of i32 numbers in binary32, cut toward zero. n is above
        -2^31, and exponents are from -250 to `most`, at most 250.
    half_product(code, a, b): products of i32 from 0 up to 2^15 - 1, where that is cheaper than others.
    dot_pairs(code, acc, a, b): i32 sums, to which the products of two pairs of 16-bit integers are added.
    dot_quads(code, acc, a, b): the same of four 8-bit integers, those of `a` unsigned and those of `b` signed.
    dot_bf16(code, acc, a, b): f32 sums, to which the products of two pairs of bfloat16 numbers are added, those of the
        high halves first, by an FMA each; operands, sums and results that are subnormal are taken as zeros.
    permute(code, x, index): the lanes of an f32 vector that the lowest bits of i32 name.
    masks: whether vectors are loaded and stored without some of their lanes by one instruction.
    elementary: instructions with which elementary functions of f32 have cheaper code.
    matrix: registers of matrices.
    """

    name: str
    width: int
    registers: int
    tile: Tile
    fma: bool
    one_fma: Tile | None = None
    word_sums: Tile | None = None
    unrolled: int = 1
    adders: Tile | None = None
    overwrites_addend: bool = False
    by_lane: bool = False
    constraint: str = ""
    flushes_rounded: bool = True
    clamp: Callable[[Code, Value, float], Value] = _clamp
    larger: Callable[[Code, Value, Value], Value] = _larger
    signed: Callable[[Code, Value, Value], Value] = _signed
    full_adder: Callable[[Code, Value, Value, Value], tuple[Value, Value]] = _full_adder
    shifted_down: Callable[[Code, Value, Value], Value] = _shifted_down
    distance_bit: Callable[[Code, Value, Value], Value] = _distance_bit
    prefetch: Callable[[Code, Value], None] = _no_prefetch
    fma_rounded: Callable[[Code, Value, Value, Value, str], Value] | None = None
    at_least: Callable[[Code, Value, float], Value] | None = None
    cut_scaled: Callable[[Code, Value, Value, int], Value] | None = None
    half_product: Callable[[Code, Value, Value], Value] | None = None
    dot_pairs: Callable[[Code, Value, Value, Value], Value] | None = None
    dot_quads: Callable[[Code, Value, Value, Value], Value] | None = None
    dot_bf16: Callable[[Code, Value, Value, Value], Value] | None = None
    permute: Callable[[Code, Value, Value], Value] | None = None
    masks: bool = False
    elementary: Elementary | None = None
    matrix: Matrix | None = None

    def dot(self, count: int) -> Callable[[Code, Value, Value, Value], Value] | None:
        """The instruction that multiplies and adds `count` integers of each word, if there is one."""
        return {2: self.dot_pairs, 4: self.dot_quads}.get(count)

    def barrier(self, code: Code, values: Sequence[Value]) -> list[Value]:
        """Return vectors and addresses again: code that uses the results is scheduled after all of `values`.

        LLVM, left free, interleaves so much that it spills registers. An empty assembler text holds no more values than
        there are registers: LLVM would say so on the terminal only, and write a wrong object.
        """
        if not self.constraint:
            return list(values)
        pointers = sum(value.type.element == PTR for value in values)
        if len(values) - pointers > self.registers or pointers > _ADDRESSES:
            middle = len(values) // 2
            return [*self.barrier(code, values[:middle]), *self.barrier(code, values[middle:])]
        results = ["=r" if value.type.element == PTR else f"={self.constraint}" for value in values]
        return code.assembly("", ",".join([*results, *(str(n) for n in range(len(values)))]), *values)

    def at(self, width: int) -> InstructionSet:
        """The instructions for vectors of `width` lanes: those of another width than the registers' are portable."""
        if width == self.width:
            return self
        portable = InstructionSet(self.name, width, self.registers, self.tile, self.fma)
        return replace(portable, prefetch=self.prefetch, flushes_rounded=self.flushes_rounded)
