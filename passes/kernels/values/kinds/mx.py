"""Code for Microscaling (MX): a power of two for each block, elements that are small floats or integers."""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.arithmetic.kinds.mx import SCALE_BIAS, Mx
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import (
    INFINITY,
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

    def scaling(self, code: Code, magnitude: Value, shared: Value | None) -> Scaling:
        """Powers of two by the exponents of blocks."""
        fmt = self.fmt
        scale = code.binary("subi", emit_exponent(code, magnitude), code.int(fmt.emax))
        scale = code.binary("maxsi", scale, code.int(-SCALE_BIAS & 0xFFFFFFFF))
        places = 0 if fmt.exponent_bits else fmt.significand_bits
        shift = code.binary("subi", code.int(places), scale)
        return scaling_by_power(code, magnitude, shift, fmt.unit_exponent if fmt.exponent_bits else 0)

    def units(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """The element, as a multiple of the least one."""
        if not self.fmt.exponent_bits:
            return self._integer(code, x, scaling, drawn)
        return code.binary("mulf", self._element(code, x, scaling, drawn), code.f32(2.0**-self.fmt.unit_exponent))

    def values(self, code: Code, x: Value, scaling: Scaling, parts: int, drawn: Value | None) -> list[Value]:
        """The value, exact in binary32."""
        if self.fmt.exponent_bits:
            return [scale_up(code, self._element(code, x, scaling, drawn), scaling)]
        value = scale_up(code, self._integer(code, x, scaling, drawn), scaling)
        return [code.binary("addf", value, code.f32(0.0))]  # integers have no -0

    def _integer(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        y = scale_down(code, x, scaling)
        units = round_to_integer(code, y, x, lambda u: scale_up(code, u, scaling), self.to, drawn)
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

        units = round_to_integer(code, code.binary("mulf", y, reciprocal), x, back, self.to, drawn)
        return clamp(code, code.binary("mulf", units, quantum), float(fmt.largest))
