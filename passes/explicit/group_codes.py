"""The codes of elements of a format with groups, from which a contraction converts the same values.

A code is how many units of its group an element becomes, or the bits of an element that is a float. One that becomes
zero but is positive has the least code. In a group that is not finite, which a contraction takes for NaN as a whole,
codes only say what kind of number an element is. Where the tensor has one scale, which is made from its largest
magnitude, the largest code stands for that.

What is made of the codes is in the format, so that converting it changes nothing, and the conversion sees the same
largest magnitudes: those of groups have the same exponents, and that of the tensor is the same number.
"""

from __future__ import annotations

from numc.numerics.binary32 import INFINITY, NAN
from numc.numerics.groups import GroupConversion
from numc.passes.kernels.builder import Code, Function
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import GroupCode, Scaling, emit_exponent, scale_up
from numc.passes.kernels.values.kinds import code_of

LEAST = 2.0**-149
"""A positive float32 that every rounding makes zero that makes any positive number zero."""
_NOT_FINITE = 0x7FFF  # in place of the exponent of a group
_POSITIVE, _NAN, _INFINITE = 1, 2, 3  # codes of such a group; 0 is any other finite number
MAGNITUDE = 0x7FFFFFFF
"""The bits of a float32 but for its sign."""


def exponent() -> str:
    """A function from the largest magnitude of a group to its exponent."""
    code = Function("exponent", {"x": "i32"}, "i16", attributes="")
    is_finite = code.compare("ult", code["x"], code.int(INFINITY))
    power = code.select(is_finite, emit_exponent(code, code["x"]), code.int(_NOT_FINITE))
    return code.function(code.cast("trunci", power, "i16"))


def narrowing(to: GroupConversion) -> str:
    """A function from an element, the largest magnitude of its group and that of its tensor to its code."""
    bits, encoding = to.format.code_bits, code_of(to)
    word = "i8" if bits <= 8 else "i16"
    code = Function("narrow", {"x": "f32", "most": "i32", "largest": "i32"}, word, attributes="")
    x, most = code["x"], code["most"]
    number = encoding.code_of(code, encoding.units(code, x, _scaling(code, encoding, most, code["largest"]), None))
    magnitude = code.binary("andi", code.cast("bitcast", x, "i32"), code.int(MAGNITUDE))
    is_positive = code.compare("ogt", x, code.f32(0.0))

    def signed(value: int) -> Value:
        return code.select(is_positive, code.int(value), code.int(-value & 0xFFFFFFFF))

    if to.format.group is None:
        # The scale is made from the largest magnitude, which the largest code stands for.
        number = code.select(code.compare("eq", magnitude, most), signed(to.format.most_units), number)
    is_lost = code.binary("andi", is_positive, code.compare("eq", number, code.int(0)))
    number = code.select(is_lost, code.int(-(1 << bits - 1) & 0xFFFFFFFF), number)
    other = code.select(is_positive, code.int(_POSITIVE), code.int(0))
    other = code.select(code.compare("eq", magnitude, code.int(INFINITY)), signed(_INFINITE), other)
    other = code.select(code.compare("ugt", magnitude, code.int(INFINITY)), code.int(_NAN), other)
    number = code.select(code.compare("ult", most, code.int(INFINITY)), number, other)
    return code.function(code.cast("trunci", number, word))


def widening(to: GroupConversion) -> str:
    """A function from a code, the exponent of its group if there is one, and the largest magnitude to an element."""
    bits, encoding = to.format.code_bits, code_of(to)
    has_groups = to.format.group is not None
    exponent_argument = {"exponent": "i16"} if has_groups else {}
    word = "i8" if bits <= 8 else "i16"
    code = Function("widen", {"x": word, **exponent_argument, "largest": "i32"}, "f32", attributes="")
    largest, unused = code["largest"], code.int(32 - bits)
    number = code.binary("shrsi", code.binary("shli", code.cast("extui", code["x"], "i32"), unused), unused)
    value = encoding.element_of(code, number)
    most = _power(code, code.cast("extsi", code["exponent"], "i32")) if has_groups else largest
    scaling = _scaling(code, encoding, most, largest)
    magnitude = code.cast("bitcast", largest, "f32")

    def signed(size: Value) -> Value:
        return code.select(code.compare("sgt", number, code.int(0)), size, code.unary("arith.negf", size))

    if has_groups:
        widened = scale_up(code, value, scaling)
        # In a group that is not finite, one has the largest finite magnitude of the tensor, if that counts.
        finite = magnitude if to.format.finite_only else code.f32(1.0)
    else:
        is_largest = code.compare("eq", code.magnitude(number), code.int(to.format.most_units))
        widened = code.select(is_largest, signed(magnitude), code.binary("mulf", value, scaling.up[0]))
        finite = code.f32(1.0)
    is_lost = code.compare("eq", number, code.int(-(1 << bits - 1) & 0xFFFFFFFF))
    widened = code.select(is_lost, code.f32(LEAST), widened)
    is_infinite = code.compare("eq", code.magnitude(number), code.int(_INFINITE))
    other = code.select(is_infinite, signed(code.f32(float("inf"))), signed(finite))
    other = code.select(code.compare("eq", number, code.int(_NAN)), code.f32(float("nan")), other)
    return code.function(code.select(code.compare("ult", most, code.int(INFINITY)), widened, other))


def _scaling(code: Code, kind: GroupCode, most: Value, largest: Value) -> Scaling:
    return kind.scaling(code, most, kind.shared(code, largest))


def _power(code: Code, exponent: Value) -> Value:
    """The encoding of two to the power of an exponent, which may be subnormal; that of NaN for `_NOT_FINITE`."""
    normal = code.binary("shli", code.binary("addi", exponent, code.int(127)), code.int(23))
    shift = code.binary("maxsi", code.binary("addi", exponent, code.int(149)), code.int(0))
    small = code.binary("shli", code.int(1), code.binary("minsi", shift, code.int(23)))
    pattern = code.select(code.compare("slt", exponent, code.int(-126 & 0xFFFFFFFF)), small, normal)
    return code.select(code.compare("eq", exponent, code.int(_NOT_FINITE)), code.int(NAN), pattern)
