"""Values of formats with groups as straight-line code: the scales of groups, and the elements (arithmetic.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numc.compiler.arithmetic.formats import Noise
from numc.compiler.arithmetic.groups import CHUNK, SCALE_BIAS, Bfp, GroupConversion, GroupFormat, Int, Mx
from numc.passes.kernels.builder import Code

_INFINITY = 0x7F800000
_NAN = 0x7FC00000
_LEAST = 149  # the quantum of binary32 is 2^-149


@dataclass(frozen=True)
class Scaling:
    """Factors that take a value to where elements are rounded (`down` one after the other), and back (`up`).

    Two each, because one power of two can lie beyond the range of binary32. unit: what the values of a group are
    multiples of; NaN, like the factors back, for a group with an infinity or a NaN.
    """

    down: tuple[str, str]
    up: tuple[str, str]
    unit: str


def emit_exponent(code: Code, magnitude: str) -> str:
    """floor(log2) of a finite magnitude by its encoding; -149 for zero."""
    normal = code.binary("subi", code.binary("shrui", magnitude, code.int(23), "i32"), code.int(127), "i32")
    # The encoding of a subnormal number counts quanta.
    count = code.cast("bitcast", code.cast("sitofp", magnitude, "i32", "f32"), "f32", "i32")
    small = code.binary("subi", code.binary("shrui", count, code.int(23), "i32"), code.int(127 + 149), "i32")
    small = code.binary("maxsi", small, code.int(-149 & 0xFFFFFFFF), "i32")
    return code.select(code.compare("ult", magnitude, code.int(1 << 23)), small, normal, "i32")


def emit_scaling(code: Code, magnitude: str, fmt: GroupFormat, bottom: str) -> Scaling:
    """The factors of groups by their largest magnitudes (encodings). `bottom`: the lowest exponent of bfp."""
    exponent = emit_exponent(code, magnitude)
    if isinstance(fmt, Bfp):
        exponent = code.binary("maxsi", exponent, bottom, "i32")
        shift = code.binary("subi", code.int(fmt.magnitude_bits - 1), exponent, "i32")
        # All binary32 numbers are multiples of 2^-149: units below that are not needed.
        shift = code.binary("minsi", shift, code.int(_LEAST), "i32")
    else:
        assert not isinstance(fmt, Int)
        scale = code.binary("subi", exponent, code.int(fmt.emax), "i32")
        scale = code.binary("maxsi", scale, code.int(-SCALE_BIAS & 0xFFFFFFFF), "i32")
        places = 0 if fmt.exponent_bits else fmt.significand_bits
        shift = code.binary("subi", code.int(places), scale, "i32")
    first = code.binary("maxsi", shift, code.int(-126 & 0xFFFFFFFF), "i32")
    first = code.binary("minsi", first, code.int(100), "i32")
    second = code.binary("subi", shift, first, "i32")

    def power(exponent: str, name: str) -> str:
        biased = code.binary(name, code.int(127), exponent, "i32")
        return code.binary("shli", biased, code.int(23), "i32")

    down = [code.cast("bitcast", power(e, "addi"), "i32", "f32") for e in (first, second)]
    up = [power(e, "subi") for e in (first, second)]
    is_finite = code.compare("ult", magnitude, code.int(_INFINITY))
    up[0] = code.select(is_finite, up[0], code.int(_NAN), "i32")
    back = [code.cast("bitcast", e, "i32", "f32") for e in up]
    # Elements that are floats are multiples of their least subnormal number.
    unit = back[1] if unit_exponent(fmt) == 0 else code.binary("mulf", back[1], code.f32(2.0 ** unit_exponent(fmt)))
    return Scaling((down[0], down[1]), (back[0], back[1]), code.binary("mulf", unit, back[0]))


def unit_exponent(fmt: GroupFormat) -> int:
    """The exponent of the smallest element, where elements are floats; others are integers here."""
    return fmt.emin - fmt.significand_bits if isinstance(fmt, Mx) and fmt.exponent_bits else 0


def emit_units(code: Code, x: str, scaling: Scaling, to: GroupConversion, drawn: str = "") -> str:
    """How many units of its group `x` becomes, a binary32 number; any where the unit is NaN.

    drawn: here and below, what the rounding draws (i32), if it is stochastic.
    """
    fmt = to.format
    if not isinstance(fmt, Mx) or not fmt.exponent_bits:
        return _units(code, x, scaling, to, drawn)
    return code.binary("mulf", _element(code, x, scaling, to, drawn), code.f32(2.0 ** -unit_exponent(fmt)))


def emit_values(code: Code, x: str, scaling: Scaling, to: GroupConversion, parts: int, drawn: str = "") -> list[str]:
    """The value of bfp or mx that `x` becomes in a group; exact, as values of both formats are binary32 numbers.

    With several `parts` (of bfp) they are the chunks of its magnitude, the most significant first, in their places.
    """
    fmt = to.format
    assert not isinstance(fmt, Int)
    if isinstance(fmt, Bfp):
        units = _units(code, x, scaling, to, drawn)
        chunks = []
        for n in range(1, parts):
            # What lies above the chunks that are left; where there is an odd number of bits, the last one has one.
            place = 2.0 ** (fmt.magnitude_bits - n * CHUNK)
            top = code.op(f"math.trunc {code.binary('mulf', units, code.f32(1 / place))} : {code.ty('f32')}")
            chunks.append(code.binary("mulf", top, code.f32(place)))
            units = code.binary("subf", units, chunks[-1])
        return [_back(code, chunk, scaling) for chunk in (*chunks, units)]
    if not fmt.exponent_bits:
        # There is no -0.
        return [code.binary("addf", _back(code, _units(code, x, scaling, to, drawn), scaling), code.f32(0.0))]
    return [_back(code, _element(code, x, scaling, to, drawn), scaling)]


def _down(code: Code, x: str, scaling: Scaling) -> str:
    return code.binary("mulf", code.binary("mulf", x, scaling.down[0]), scaling.down[1])


def _back(code: Code, y: str, scaling: Scaling) -> str:
    return code.binary("mulf", code.binary("mulf", y, scaling.up[1]), scaling.up[0])


def _units(code: Code, x: str, scaling: Scaling, to: GroupConversion, drawn: str) -> str:
    """The integer that stands for `x` in bfp or mxint8."""
    fmt = to.format
    assert not isinstance(fmt, Int)
    largest = fmt.largest if isinstance(fmt, Bfp) else (1 << fmt.element_bits - 1) - 1
    units = _to_integer(code, _down(code, x, scaling), x, lambda u: _back(code, u, scaling), to, drawn)
    # Truncated magnitudes are below 2^m as they are: no exponent is below that of its group.
    return units if to.rounding == "rtz" and isinstance(fmt, Bfp) else _clamp(code, units, float(largest))


def _element(code: Code, x: str, scaling: Scaling, to: GroupConversion, drawn: str) -> str:
    """The element of mx, a float, that stands for `x`."""
    fmt = to.format
    assert isinstance(fmt, Mx)
    y = _down(code, x, scaling)
    # Its quantum is that of its own exponent, but not below that of the smallest normal element.
    bits = code.cast("bitcast", y, "f32", "i32")
    power = code.binary("andi", bits, code.int(_INFINITY), "i32")
    power = code.binary("maxsi", power, code.int(fmt.emin + 127 << 23), "i32")
    quantum = code.binary("subi", power, code.int(fmt.significand_bits << 23), "i32")
    reciprocal = code.binary("subi", code.int(254 << 23), quantum, "i32")
    quantum, reciprocal = (code.cast("bitcast", e, "i32", "f32") for e in (quantum, reciprocal))

    def back(units: str) -> str:
        return _back(code, code.binary("mulf", units, quantum), scaling)

    units = _to_integer(code, code.binary("mulf", y, reciprocal), x, back, to, drawn)
    return _clamp(code, code.binary("mulf", units, quantum), float(fmt.largest))


def emit_divisor(code: Code, largest: str, fmt: Int) -> str:
    """What values of a tensor are divided by: its scale, or infinity where that is zero."""
    infinity = code.cast("bitcast", code.int(_INFINITY), "i32", "f32")
    return code.select(code.compare("eq", largest, code.int(0)), infinity, emit_scale(code, largest, fmt))


def emit_scale(code: Code, largest: str, fmt: Int) -> str:
    """The scale of a tensor by its largest magnitude (an encoding); 0 if that is zero, NaN if it is not finite."""
    value = code.cast("bitcast", largest, "i32", "f32")
    scale = code.binary("maximumf", code.binary("divf", value, code.f32(fmt.largest)), code.f32(2.0**-149))
    scale = code.select(code.compare("eq", largest, code.int(0)), code.f32(0.0), scale)
    nan = code.cast("bitcast", code.int(_NAN), "i32", "f32")
    return code.select(code.compare("uge", largest, code.int(_INFINITY)), nan, scale)


def emit_integer(code: Code, x: str, divisor: str, to: GroupConversion, drawn: str = "") -> str:
    """The integer of intN that stands for `x`, as a float; 0 where `x` or the divisor is NaN."""
    assert isinstance(to.format, Int)
    y = code.binary("divf", x, divisor)
    integer = _clamp(code, _to_integer(code, y, y, lambda u: u, to, drawn), float(to.format.largest))
    return code.select(code.compare("ord", y, y, "f32"), integer, code.f32(0.0))


def _to_integer(code: Code, y: str, x: str, back: Callable[[str], str], to: GroupConversion, drawn: str) -> str:
    """Round `y` to an integer, and keep the sign of a zero. `y` may have become 0 by underflow, `x` has not.

    back: what takes an integer to where `x` is.
    """
    kind, rounding = code.ty("f32"), to.rounding
    if rounding == "rne":
        return code.op(f"math.roundeven {y} : {kind}")
    whole = code.op(f"math.trunc {y} : {kind}")
    if to.noise is not None:
        return _to_noisy_integer(code, y, whole, to.noise, drawn)
    if rounding == "rtz":
        return whole
    one = code.f32(1.0)
    if rounding == "rna":
        rest = code.op(f"math.absf {code.binary('subf', y, whole)} : {kind}")
        away = code.op(f"math.copysign {one}, {y} : {kind}")
        return code.select(code.compare("oge", rest, code.f32(0.5), "f32"), code.binary("addf", whole, away), whole)
    value = back(whole)
    if rounding == "odd":
        half = code.binary("mulf", whole, code.f32(0.5))
        even = code.compare("oeq", half, code.op(f"math.trunc {half} : {kind}"), "f32")
        moves = code.binary("andi", even, code.compare("one", value, x, "f32"), "i1")
        away = code.op(f"math.copysign {one}, {x} : {kind}")
        return code.select(moves, code.binary("addf", whole, away), whole)
    predicate, step = ("olt", "addf") if rounding == "rup" else ("ogt", "subf")
    return code.select(code.compare(predicate, value, x, "f32"), code.binary(step, whole, one), whole)


def _to_noisy_integer(code: Code, y: str, whole: str, noise: Noise, drawn: str) -> str:
    """Cut `y` to the bits of `noise` behind the point, add what is drawn, truncate; `whole` is `y` truncated.

    What `y` lost by underflow is far below the noise. The sum is exact as far as the comparison goes: 2^24 at most.
    """
    kind, scale = code.ty("f32"), code.f32(2.0**noise.bits)
    rest = code.op(f"math.absf {code.binary('subf', y, whole)} : {kind}")
    cut = code.op(f"math.trunc {code.binary('mulf', rest, scale)} : {kind}")
    total = code.binary("addf", cut, code.cast("sitofp", drawn, "i32", "f32"))
    away = code.op(f"math.copysign {code.f32(1.0)}, {y} : {kind}")
    return code.select(code.compare("oge", total, scale, "f32"), code.binary("addf", whole, away), whole)


def _clamp(code: Code, x: str, largest: float) -> str:
    """Between -largest and largest; a NaN becomes a number."""
    high, low = code.f32(largest), code.f32(-largest)
    x = code.select(code.compare("olt", x, high, "f32"), x, high)
    return code.select(code.compare("ogt", x, low, "f32"), x, low)
