"""Real numbers of a graph in vectors of binary32 numbers: their parts, and what they are rounded to."""

from __future__ import annotations

from collections.abc import Callable

from numc.numerics.circuits.known import Known
from numc.numerics.circuits.number import Number
from numc.numerics.circuits.traced import EXACT_BITS, Traced
from numc.numerics.formats import Conversion, Record
from numc.numerics.operators import FP32
from numc.passes.kernels.builder import Code
from numc.passes.kernels.datapaths.blocks.alignment import power_of_two
from numc.passes.kernels.datapaths.defined.whole_numbers import condition, constant, element_of, to_element
from numc.passes.kernels.datapaths.steps.chain import emit_add_to_odd
from numc.passes.kernels.isa.instruction_set import InstructionSet
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32, F64
from numc.passes.kernels.values.codes import emit_narrowed, emit_widened
from numc.passes.kernels.values.listed import emit_listed_code, emit_listed_value
from numc.passes.kernels.values.records import Noise
from numc.passes.kernels.values.rounding import emit_round

_MAGNITUDE = F32.sign - 1
_HALF = 120  # exponents of factors in binary32 that leave room for a significand
_CUT = 250  # the exponent that takes every whole number beyond binary32, and its opposite all of 32 bits below it
_TINY, _HUGE = -900, 700  # exponents beyond which every rounding to a format within binary32 is the same


class Reals:
    """Emits real numbers: `value` gives what the graph has computed so far, by the identity of a number."""

    def __init__(self, code: Code, value: Callable[[Number | Traced], Value], isa: InstructionSet) -> None:
        self.code, self.isa = code, isa
        self.value = value
        self._is_finite = False

    def part(self, n: Number) -> Value:
        """Append a part of a number of a format."""
        assert isinstance(n.of, Traced)
        assert n.of.to is not None
        x = self.value(n.of)
        self._is_finite = n.of.finite
        return getattr(self, f"_{n.data}")(x, n.of.to)  # type: ignore[no-any-return]

    def _bits(self, x: Value) -> Value:
        return self.code.cast("bitcast", x, "i32")

    def _finite(self, x: Value) -> Value:
        return self.code.compare("slt", self._size(x), self.code.int(F32.infinity))

    def _size(self, x: Value) -> Value:
        return self.code.binary("andi", self._bits(x), self.code.int(_MAGNITUDE))

    def _sign(self, x: Value, to: Conversion) -> Value:
        code = self.code
        sign = code.compare("slt", self._bits(x), code.int(0))
        return sign if self._is_finite else code.binary("andi", sign, code.compare("ord", x, x))

    def _nan(self, x: Value, to: Conversion) -> Value:
        return self.code.compare("uno", x, x)

    def _infinite(self, x: Value, to: Conversion) -> Value:
        return self.code.compare("eq", self._size(x), self.code.int(F32.infinity))

    def _zero(self, x: Value, to: Conversion) -> Value:
        return self.code.compare("oeq", x, self.code.f32(0.0))

    def _exponent(self, x: Value, to: Conversion) -> Value:
        code, emin = self.code, to.format.emin
        size = self._size(x)
        if emin < 1 - F32.bias:
            # Numbers that are subnormal in binary32, with exponents of their own.
            wide = code.cast("bitcast", code.unary("math.absf", code.cast("extf", x, "f64")), "i64")
            field = code.cast("trunci", code.binary("shrui", wide, code.int(52, "i64")), "i32")
            exponent = code.binary("subi", field, code.int(F64.bias))
        else:
            exponent = code.binary("subi", code.binary("shrui", size, code.int(23)), code.int(F32.bias))
        exponent = code.binary("maxsi", exponent, code.int(emin))
        return exponent if self._is_finite else code.select(self._finite(x), exponent, code.int(emin))

    def _significand(self, x: Value, to: Conversion) -> Value:
        code, fmt = self.code, to.format
        size = self._size(x)
        dropped = F32.significand_bits + 1 - fmt.precision
        if fmt.emin == 1 - F32.bias and isinstance(fmt, Record):
            hidden = 1 << F32.significand_bits
            fraction = code.binary("andi", size, code.int(hidden - 1))
            # A subnormal number has no hidden bit, and is smaller than with one.
            whole = code.binary("minui", size, code.binary("ori", fraction, code.int(hidden)))
            whole = code.binary("shrui", whole, code.int(dropped)) if dropped else whole
        else:
            # Exact in binary64, whose exponents leave room for every power.
            exponent = self._exponent(x, to)
            power = power_of_two(code, code.binary("subi", code.int(fmt.precision - 1), exponent))
            magnitude = code.unary("math.absf", code.cast("extf", x, "f64"))
            scaled = code.binary("mulf", magnitude, power)
            if not self._is_finite:
                scaled = code.select(self._finite(x), scaled, code.f64(0.0))
            return code.cast("fptosi", scaled, "i32")
        return whole if self._is_finite else code.select(self._finite(x), whole, code.int(0))

    def _code(self, x: Value, to: Conversion) -> Value:
        if to.format == FP32.format:
            code = self.code  # of every NaN the one that numc writes
            bits = code.select(code.compare("uno", x, x), code.int(F32.nan), self._bits(x))
            return code.cast("extui", bits, "i64")
        if to.format.is_usual:
            return emit_narrowed(self.code, x, to.format)
        return emit_listed_code(self.code, x, to.format)

    def decoded(self, node: Traced) -> Value:
        """Append the number that a code stands for."""
        (n,) = node.args
        assert isinstance(n, Number)
        assert node.to is not None
        code32 = to_element(self.code, self.value(n), "i32")
        if node.to.format == FP32.format:
            return self.code.cast("bitcast", code32, "f32")
        if node.to.format.is_usual:
            return emit_widened(self.code, code32, node.to.format)
        return emit_listed_value(self.code, code32, node.to.format)

    def rounded(self, x: Traced, to: Conversion, noise: Noise = None) -> Value:
        """Append a real number rounded to a format."""
        code = self.code
        if x.op == "chosen" and x.to is None:
            choice, first, second = x.args
            assert isinstance(first, Traced)
            assert isinstance(second, Traced)
            both = (self.rounded(each, to, noise) for each in (first, second))
            return code.select(condition(code, self.value(choice)), *both)
        if x.op == "constant" and to.noise is None:
            return code.f32(float(Known(x.data, None).rounded(to).value))
        if x.to is not None:
            stays = x.to.format == to.format and to.noise is None and not to.overflow
            return self.value(x) if stays else emit_round(code, self.value(x), to, noise=noise)
        if str(to) == "fp32:rtz" and (cut := self._cut(x)) is not None:
            return cut
        if str(to) == "fp32" and (once := self._operation(x)) is not None:
            return once
        total = self.exact(x)
        if str(to) != "fp32":  # the truncf below is that conversion
            total = emit_round(code, total, to, F64, noise)
        return code.cast("truncf", total, "f32")

    def _cut(self, x: Traced) -> Value | None:
        """A scaled number of 32 bits in binary32, cut toward zero, where the processor does so; or None."""
        if x.op != "scaled" or self.isa.cut_scaled is None:
            return None
        n, e = x.args
        assert isinstance(n, Number)
        assert isinstance(e, Number)
        if element_of(n) != "i32" or n.low == -1 << 31:
            return None
        exponent = to_element(self.code, self._between(e, -_CUT, _CUT), "i32")
        number = to_element(self.code, self.value(n), "i32")
        return self.isa.cut_scaled(self.code, number, exponent, min(e.high, _CUT))

    def _operation(self, exact: Traced) -> Value | None:
        """The one operation in binary32 that rounds an exact product or sum, if there is one."""
        code, args = self.code, [each for each in exact.args if isinstance(each, Traced)]
        if exact.op == "sum":
            first, second = args
            if second.op in ("product", "scaled") and second.to is None:
                first, second = second, first
            factors = [each for each in first.args if isinstance(each, Traced)]
            if _is_single(second) and (halves := self._halves(first)) is not None:
                return code.fma(*halves, self.single(second))
            single = [_is_single(each) for each in (*factors, second)]
            if first.op == "product" and first.to is None and len(factors) == 2 and all(single):
                x, y, z = map(self.single, (*factors, second))
                return code.fma(x, y, z)
        if (halves := self._halves(exact)) is not None:
            return code.binary("mulf", *halves)
        if exact.op in ("product", "sum") and all(map(_is_single, args)):
            return code.binary("mulf" if exact.op == "product" else "addf", *map(self.single, args))
        return None

    def _halves(self, x: Traced) -> tuple[Value, Value] | None:
        """A scaled number as a product of two of binary32 that are exact and normal, or zero; None if it has none."""
        code = self.code
        if x.op != "scaled" or x.to is not None:
            return None
        n, e = x.args
        assert isinstance(n, Number)
        assert isinstance(e, Number)
        bits = max(n.high.bit_length(), (-n.low).bit_length())
        if bits > F32.significand_bits + 1:
            return None
        # Below 2^-216 and above 2^191 numbers round, and are added, as all others there are.
        exponent = to_element(code, self._between(e, -2 * _HALF, 2 * _HALF - bits), "i32")
        half = code.binary("shrsi", exponent, code.int(1))
        number = code.cast("sitofp", to_element(code, self.value(n), "i32"), "f32")
        first = code.binary("mulf", number, power_of_two(code, half, F32))
        return first, power_of_two(code, code.binary("subi", exponent, half), F32)

    def single(self, x: Traced) -> Value:
        """Append a number that binary32 has."""
        return self.code.f32(x.data) if x.op == "constant" else self.value(x)

    def exact(self, x: Traced) -> Value:
        """Append an exact number in binary64; one that has more bits, rounded to odd."""
        code = self.code
        if x.op == "constant":
            return code.f64(x.data)
        if x.to is not None:
            return code.cast("extf", self.value(x), "f64")
        if x.op == "scaled":
            return self._scaled(x)
        args = [self.exact(each) for each in x.args if isinstance(each, Traced)]
        return code.binary("mulf", *args) if x.op == "product" else emit_add_to_odd(code, *args)

    def _scaled(self, x: Traced) -> Value:
        """n * 2^e: n in pieces of 32 bits, the highest first; what is beyond all formats is not scaled further."""
        code = self.code
        n, e = x.args
        assert isinstance(n, Number)
        assert isinstance(e, Number)
        total = self._wide(n)
        exponent = self._between(e, _TINY, _HUGE)
        return code.binary("mulf", total, power_of_two(code, to_element(code, exponent, "i32")))

    def _between(self, n: Number, low: int, high: int) -> Value:
        """A whole number, or the nearest one between two."""
        code, element = self.code, element_of(n)
        x = to_element(code, self.value(n), element)
        x = x if n.low >= low else code.binary("maxsi", x, constant(code, low, element))
        return x if n.high <= high else code.binary("minsi", x, constant(code, high, element))

    def _wide(self, n: Number) -> Value:
        code, element = self.code, element_of(n)
        x = to_element(code, self.value(n), element)
        bits = int(element[1:])
        if bits == 32:
            return code.cast("sitofp", x, "f64")
        total = None
        for low in range(bits - 32, -1, -32):
            if low and low >= max(n.high.bit_length(), (~n.low).bit_length()) + 1:
                continue
            piece = code.cast("trunci", code.binary("shrsi", x, constant(code, low, element)), "i32")
            scale = code.f64(2.0**low)
            if total is None:
                total = code.binary("mulf", code.cast("sitofp", piece, "f64"), scale)
            else:
                total = emit_add_to_odd(code, total, code.binary("mulf", code.cast("uitofp", piece, "f64"), scale))
        assert total is not None
        return total


def _is_single(x: Traced) -> bool:
    """Whether binary32 has a number."""
    return x.to is not None or x.op == "constant"


assert F64.significand_bits + 1 == EXACT_BITS
