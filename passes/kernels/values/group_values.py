"""Values of formats with groups as straight-line code: what the kinds share (arithmetic.md section 2).

The code of one kind is in `kinds/`: `GroupCode` says what it consists of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from numc.numerics.binary32 import INFINITY, NAN
from numc.numerics.formats import Noise
from numc.numerics.groups import Factors, GroupConversion
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value


@dataclass(frozen=True)
class Scaling:
    """Numbers that take a value to where elements are rounded (`down`, one after the other), and back (`up`).

    They are factors for formats whose scales are powers of two: two each, as one power of two can lie beyond the range
    of binary32. For integers they are a divisor and the scale. unit: what the values of a group are multiples of, or
    the scale, where elements are multiplied by it later; NaN, like the factors back, for a group with an infinity or a
    NaN; None where the guard does not ask for it.
    """

    down: tuple[Value, ...]
    up: tuple[Value, ...]
    unit: Value | None = None


@dataclass(frozen=True)
class GroupCode(ABC):
    """The code of a conversion to one kind of format with groups.

    `x` is a value to convert, in lanes or not. drawn: the integer that a stochastic rounding adds to it (i32), None for
    other roundings. width: the widths that a run chose (an i64 scalar), None for a format of fixed ones. factors: what
    a contraction multiplies.
    """

    to: GroupConversion
    width: Value | None = field(default=None, kw_only=True)
    factors: Factors = field(default="sums", kw_only=True)

    @property
    def scales_by_group(self) -> bool:
        """Whether the values of a group follow from it alone, by a power of two: no tensor and no run is asked."""
        return False

    def shared(self, code: Code, largest: Value) -> Value | None:
        """Append what all groups of a tensor with this largest magnitude (an encoding) need, if there is anything."""
        return None

    @abstractmethod
    def scaling(self, code: Code, magnitude: Value, shared: Value | None) -> Scaling:
        """Append the scaling of groups by their largest magnitudes (encodings); of a tensor where it is one group."""

    @abstractmethod
    def units(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """Append how many units of its group `x` becomes, as a binary32 number; anything where the unit is NaN."""

    def near(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """Append a number that is `units`, or that becomes it when it is rounded to nearest even."""
        return self.units(code, x, scaling, drawn)

    def code_of(self, code: Code, units: Value) -> Value:
        """Append the code (i32) of so many units, of which any bits may stand beyond the format's `code_bits`."""
        return code.cast("fptosi", units, "i32")

    def element_of(self, code: Code, number: Value) -> Value:
        """Append what `scale_up` takes to the value that a code, extended by its first bit, stands for."""
        return code.cast("sitofp", number, "f32")

    @abstractmethod
    def values(self, code: Code, x: Value, scaling: Scaling, parts: int, drawn: Value | None) -> list[Value]:
        """Append what a contraction multiplies for `x`: its value in the format, in `parts` that add up to it."""


def emit_exponent(code: Code, magnitude: Value) -> Value:
    """floor(log2) of a finite magnitude by its encoding; -149 for zero."""
    normal = code.binary("subi", code.binary("shrui", magnitude, code.int(23)), code.int(127))
    # The encoding of a subnormal number counts quanta.
    count = code.cast("bitcast", code.cast("sitofp", magnitude, "f32"), "i32")
    small = code.binary("subi", code.binary("shrui", count, code.int(23)), code.int(127 + 149))
    small = code.binary("maxsi", small, code.int(-149 & 0xFFFFFFFF))
    return code.select(code.compare("ult", magnitude, code.int(1 << 23)), small, normal)


def scaling_by_power(code: Code, magnitude: Value, shift: Value, unit_exponent: int = 0) -> Scaling:
    """The scaling by 2^`shift` (i32) of groups with these largest magnitudes (encodings).

    unit_exponent: of the least element, where values are scaled to elements that are floats.
    """
    first = code.binary("maxsi", shift, code.int(-126 & 0xFFFFFFFF))
    first = code.binary("minsi", first, code.int(100))
    second = code.binary("subi", shift, first)

    def power(exponent: Value, name: str) -> Value:
        return code.binary("shli", code.binary(name, code.int(127), exponent), code.int(23))

    down = [code.cast("bitcast", power(e, "addi"), "f32") for e in (first, second)]
    up = [power(e, "subi") for e in (first, second)]
    is_finite = code.compare("ult", magnitude, code.int(INFINITY))
    up[0] = code.select(is_finite, up[0], code.int(NAN))
    back = [code.cast("bitcast", e, "f32") for e in up]
    unit = back[1] if unit_exponent == 0 else code.binary("mulf", back[1], code.f32(2.0**unit_exponent))
    return Scaling(tuple(down), tuple(back), code.binary("mulf", unit, back[0]))


def scale_down(code: Code, x: Value, scaling: Scaling) -> Value:
    """Take a value to where elements are rounded, by factors."""
    for factor in scaling.down:
        x = code.binary("mulf", x, factor)
    return x


def scale_up(code: Code, y: Value, scaling: Scaling) -> Value:
    """Take an element to its value, by factors: the one that can be NaN comes last."""
    for factor in reversed(scaling.up):
        y = code.binary("mulf", y, factor)
    return y


def nearest(code: Code, x: Value, offset: int = 0) -> Value:
    """Round `x`, below 2^16, to nearest even; append that integer and `offset` in the lowest bits of an i32.

    Integers of this size are binary32 numbers with the significands that they have themselves. Of a NaN: anything.
    """
    return code.cast("bitcast", code.binary("addf", x, code.f32(1.5 * 2**23 + offset)), "i32")


def round_to_integer(
    code: Code, y: Value, x: Value, back: Callable[[Value], Value], to: GroupConversion, drawn: Value | None
) -> Value:
    """Round `y` to an integer, and keep the sign of a zero. `y` may have become 0 by underflow, `x` has not.

    back: what takes an integer to where `x` is.
    """
    rounding = to.rounding
    if rounding == "rne":
        return code.unary("math.roundeven", y)
    whole = code.unary("math.trunc", y)
    if to.noise is not None:
        assert drawn is not None
        return _to_noisy_integer(code, y, whole, to.noise, drawn)
    if rounding == "rtz":
        return whole
    one = code.f32(1.0)
    if rounding == "rna":
        rest = code.unary("math.absf", code.binary("subf", y, whole))
        away = _copysign(code, one, y)
        return code.select(code.compare("oge", rest, code.f32(0.5)), code.binary("addf", whole, away), whole)
    value = back(whole)
    if rounding == "odd":
        half = code.binary("mulf", whole, code.f32(0.5))
        even = code.compare("oeq", half, code.unary("math.trunc", half))
        moves = code.binary("andi", even, code.compare("one", value, x))
        away = _copysign(code, one, x)
        return code.select(moves, code.binary("addf", whole, away), whole)
    predicate, step = ("olt", "addf") if rounding == "rup" else ("ogt", "subf")
    return code.select(code.compare(predicate, value, x), code.binary(step, whole, one), whole)


def _to_noisy_integer(code: Code, y: Value, whole: Value, noise: Noise, drawn: Value) -> Value:
    """Cut `y` to the bits of `noise` behind the point, add what is drawn, truncate; `whole` is `y` truncated.

    What `y` lost by underflow is far below the noise. The sum is exact as far as the comparison goes: 2^24 at most.
    """
    scale = code.f32(2.0**noise.bits)
    rest = code.unary("math.absf", code.binary("subf", y, whole))
    cut = code.unary("math.trunc", code.binary("mulf", rest, scale))
    total = code.binary("addf", cut, code.cast("sitofp", drawn, "f32"))
    away = _copysign(code, code.f32(1.0), y)
    return code.select(code.compare("oge", total, scale), code.binary("addf", whole, away), whole)


def _copysign(code: Code, size: Value, sign: Value) -> Value:
    return code.op(f"math.copysign {size}, {sign} : {size.type}", size.type)


def clamp(code: Code, x: Value, largest: float | Value) -> Value:
    """Between -largest and largest; a NaN becomes a number."""
    high = largest if isinstance(largest, Value) else code.f32(largest)
    low = code.unary("arith.negf", high) if isinstance(largest, Value) else code.f32(-largest)
    x = code.select(code.compare("olt", x, high), x, high)
    return code.select(code.compare("ogt", x, low), x, low)
