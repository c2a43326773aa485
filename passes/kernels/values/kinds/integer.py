"""Code for intN: one scale for a tensor or a channel, and integers that contractions sum."""

from __future__ import annotations

from dataclasses import dataclass

from numc.compiler.arithmetic.kinds.integer import Int
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import INFINITY, NAN, GroupCode, Scaling, clamp, round_to_integer


@dataclass(frozen=True)
class IntCode(GroupCode):
    """Values are divided by the scale, in binary32."""

    fmt: Int

    def scaling(self, code: Code, magnitude: Value, shared: Value | None) -> Scaling:
        """The scale by the largest magnitude: 0 if that is zero, NaN if it is not finite; the divisor is not zero."""
        is_zero = code.compare("eq", magnitude, code.int(0))
        value = code.cast("bitcast", magnitude, "f32")
        scale = code.binary("maximumf", code.binary("divf", value, code.f32(self.fmt.largest)), code.f32(2.0**-149))
        scale = code.select(is_zero, code.f32(0.0), scale)
        nan = code.cast("bitcast", code.int(NAN), "f32")
        scale = code.select(code.compare("uge", magnitude, code.int(INFINITY)), nan, scale)
        infinity = code.cast("bitcast", code.int(INFINITY), "f32")
        return Scaling((code.select(is_zero, infinity, scale),), (scale,))

    def units(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """The integer that stands for `x`; 0 where `x` or the scale is NaN."""
        y = code.binary("divf", x, scaling.down[0])
        integer = clamp(code, round_to_integer(code, y, y, lambda u: u, self.to, drawn), float(self.fmt.largest))
        return code.select(code.compare("ord", y, y), integer, code.f32(0.0))

    def values(self, code: Code, x: Value, scaling: Scaling, parts: int, drawn: Value | None) -> list[Value]:
        """The integer: the end of a reduction applies the scales."""
        return [self.units(code, x, scaling, drawn)]
