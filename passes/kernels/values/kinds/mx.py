"""Code for Microscaling (MX): a power of two for each block, elements that are small floats or integers."""

from __future__ import annotations

from dataclasses import dataclass

from numc.numerics.binary32 import INFINITY
from numc.numerics.kinds.mx import SCALE_BIAS, Mx
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32
from numc.passes.kernels.values.group_values import (
    GroupCode,
    Scaling,
    clamp,
    emit_exponent,
    round_to_integer,
    scale_down,
    scale_up,
    scaling_by_power,
)


@dataclass(frozen=True)
class MxCode(GroupCode):
    """Values are scaled to elements that are floats, or to the integers that the elements of mxint8 count."""

    fmt: Mx

    @property
    def scales_by_group(self) -> bool:
        """Blocks have an exponent each."""
        return True

    def scaling(self, code: Code, magnitude: Value, shared: Value | None) -> Scaling:
        """Powers of two by the exponents of blocks."""
        fmt = self.fmt
        scale = code.binary("subi", emit_exponent(code, magnitude), code.int(fmt.emax))
        if fmt.rule != "floor":  # that of a subnormal magnitude is the least one, whatever its significand is
            significand = code.binary("andi", magnitude, code.int(0x7FFFFF))
            largest = float(fmt.largest) if fmt.rule == "ceil" else 2 - 2.0**-fmt.precision
            is_beyond = code.compare(
                "ugt" if fmt.rule == "ceil" else "uge", significand, code.int(F32.encoding(largest) & 0x7FFFFF)
            )
            scale = code.binary("addi", scale, code.cast("extui", is_beyond, "i32"))
        scale = code.binary("maxsi", scale, code.int(-SCALE_BIAS & 0xFFFFFFFF))
        places = 0 if fmt.exponent_bits else fmt.significand_bits
        shift = code.binary("subi", code.int(places), scale)
        is_unit = fmt.exponent_bits and self.factors != "elements"
        return scaling_by_power(code, magnitude, shift, fmt.unit_exponent if is_unit else 0)

    def units(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """The element, as a multiple of the least one."""
        if not self.fmt.exponent_bits:
            return self._integer(code, x, scaling, drawn)
        return code.binary("mulf", self._element(code, x, scaling, drawn), code.f32(2.0**-self.fmt.unit_exponent))

    def values(self, code: Code, x: Value, scaling: Scaling, parts: int, drawn: Value | None) -> list[Value]:
        """The value, exact in binary32, or the element."""
        if self.fmt.exponent_bits:
            element = self._element(code, x, scaling, drawn)
            return [element if self.factors == "elements" else scale_up(code, element, scaling)]
        value = scale_up(code, self._integer(code, x, scaling, drawn), scaling)
        return [code.binary("addf", value, code.f32(0.0))]  # integers have no -0

    def code_of(self, code: Code, units: Value) -> Value:
        """Of floats: the sign, and the magnitude as subnormal and normal numbers are counted."""
        if not self.fmt.exponent_bits:
            return super().code_of(code, units)
        places = self.fmt.significand_bits
        bits = code.cast("bitcast", units, "i32")
        size = code.binary("andi", bits, code.int(0x7FFFFFFF))
        # A normal number has 2^places units or more, and fewer units are their own code.
        normal = code.binary("shrui", size, code.int(23 - places))
        normal = code.binary("subi", normal, code.int(126 + places << places))
        is_small = code.compare("ult", size, code.int(127 + places << 23))
        small = code.cast("fptosi", code.select(is_small, code.cast("bitcast", size, "f32"), code.f32(0.0)), "i32")
        sign = code.binary("shli", code.binary("shrui", bits, code.int(31)), code.int(self.fmt.code_bits - 1))
        size = code.select(is_small, small, normal)
        return code.select(code.compare("eq", size, code.int(0)), size, code.binary("ori", size, sign))

    def element_of(self, code: Code, number: Value) -> Value:
        """Of floats: the units of a code, and then the element."""
        if not self.fmt.exponent_bits:
            return super().element_of(code, number)
        places, sign = self.fmt.significand_bits, 1 << self.fmt.code_bits - 1
        size = code.binary("andi", number, code.int(sign - 1))
        bits = code.binary("shli", code.binary("addi", size, code.int(126 + places << places)), code.int(23 - places))
        is_small = code.compare("ult", size, code.int(1 << places))
        units = code.select(is_small, code.cast("sitofp", size, "f32"), code.cast("bitcast", bits, "f32"))
        unit = 2.0**self.fmt.unit_exponent
        is_negative = code.compare("slt", number, code.int(0))
        return code.binary("mulf", units, code.select(is_negative, code.f32(-unit), code.f32(unit)))

    def _integer(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        y = scale_down(code, x, scaling)
        units = round_to_integer(code, y, x, back=lambda u: scale_up(code, u, scaling), to=self.to, drawn=drawn)
        return clamp(code, units, float(self.fmt.most_units))

    def _element(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """An element that is a float: its quantum is that of its own exponent, or of the smallest normal element."""
        fmt = self.fmt
        y = scale_down(code, x, scaling)
        power = code.binary("andi", code.cast("bitcast", y, "i32"), code.int(INFINITY))
        power = code.binary("maxsi", power, code.int(fmt.emin + 127 << 23))
        encoding = code.binary("subi", power, code.int(fmt.significand_bits << 23))
        inverse = code.binary("subi", code.int(254 << 23), encoding)
        quantum, reciprocal = (code.cast("bitcast", e, "f32") for e in (encoding, inverse))

        def back(units: Value) -> Value:
            return scale_up(code, code.binary("mulf", units, quantum), scaling)

        units = round_to_integer(code, code.binary("mulf", y, reciprocal), x, back=back, to=self.to, drawn=drawn)
        return clamp(code, code.binary("mulf", units, quantum), float(fmt.largest))
