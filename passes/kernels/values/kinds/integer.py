"""Code for intN: one scale for a tensor or a channel, and integers that contractions sum."""

from __future__ import annotations

from dataclasses import dataclass

from numc.numerics.binary32 import INFINITY, NAN
from numc.numerics.formats import FORMATS
from numc.numerics.kinds.integer import Int
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import GroupCode, Scaling, clamp, round_to_integer

_LARGEST = float(FORMATS["fp32"].max_finite)


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
        near = self.near(code, x, scaling, drawn)
        return code.unary("math.roundeven", near) if self.to.rounding == "rne" else near

    def near(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """The number that `units` rounds to nearest even."""
        y = near = code.binary("divf", x, scaling.down[0])
        if self.to.rounding != "rne":
            near = round_to_integer(code, y, y, back=lambda u: u, to=self.to, drawn=drawn)
        return code.select(code.compare("ord", y, y), clamp(code, near, float(self.fmt.largest)), code.f32(0.0))

    def values(self, code: Code, x: Value, scaling: Scaling, parts: int, drawn: Value | None) -> list[Value]:
        """The integer, where the end of a reduction applies the scales; otherwise the value, at most the largest."""
        units = self.units(code, x, scaling, drawn)
        if self.factors == "sums":
            return [units]
        product = code.binary("addf", code.binary("mulf", units, scaling.up[0]), code.f32(0.0))  # zeros have no sign
        is_number = code.compare("ord", product, product)
        return [code.select(is_number, clamp(code, product, _LARGEST), product)]
