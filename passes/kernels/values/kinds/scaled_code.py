"""Code for groups of elements in any format, with scales that are no powers of two."""

from __future__ import annotations

from dataclasses import dataclass

from numc.numerics.binary32 import INFINITY, NAN
from numc.numerics.formats import FORMATS, floor_log2
from numc.numerics.kinds.scaled_groups import GIVEN, ScaledGroups, saturating
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.carrier import F32
from numc.passes.kernels.values.group_values import GroupCode, Scaling, emit_exponent
from numc.passes.kernels.values.rounding import emit_round

_LARGEST, _LEAST = float(FORMATS["fp32"].max_finite), 2.0**-149


@dataclass(frozen=True)
class ScaledCode(GroupCode):
    """Values are divided by the scales of group and tensor, in binary32, and rounded to elements."""

    fmt: ScaledGroups

    def shared(self, code: Code, largest: Value) -> Value | None:
        """The scale of the tensor; 0 for zeros."""
        if not self.fmt.tensor:
            return None
        value = code.cast("bitcast", largest, "f32")
        scale = code.binary("divf", value, code.f32(float(self.fmt._most)))
        return code.select(
            self._is_zero(code, largest), code.f32(0.0), code.binary("maximumf", scale, code.f32(_LEAST))
        )

    def scaling(self, code: Code, magnitude: Value, shared: Value | None) -> Scaling:
        """A divisor, which is an infinity where the scales are zero, and the scales' product."""
        if self.fmt.rule == GIVEN:
            scale = code.cast("bitcast", code.binary("andi", magnitude, code.int(0xFFFF0000)), "f32")
            return Scaling((scale,), (scale,), scale)
        fmt, is_zero = self.fmt, self._is_zero(code, magnitude)
        target = self._target(code, magnitude, shared)
        scale = emit_round(code, target, saturating(fmt.scale, "rne"))
        least = code.f32(float(fmt.scale.min_subnormal))
        scale = code.select(code.compare("oeq", scale, code.f32(0.0)), least, scale)
        scale = code.select(is_zero, code.f32(0.0) if fmt.scale.has_zero else least, scale)
        factor = scale if shared is None else self._at_most(code, code.binary("mulf", scale, shared))
        infinity, nan = (code.cast("bitcast", code.int(bits), "f32") for bits in (INFINITY, NAN))
        divisor = code.select(code.compare("oeq", factor, code.f32(0.0)), infinity, factor)
        is_nan = code.compare("uge", magnitude, code.int(INFINITY))
        factor = code.select(is_nan, nan, factor)
        unit = code.select(is_nan, nan, scale) if self.factors == "elements" else factor
        return Scaling((divisor,), (factor,), unit)

    def _target(self, code: Code, magnitude: Value, shared: Value | None) -> Value:
        """A number that the scale is rounded from; any one where the group is of zeros, or not finite."""
        fmt, amax = self.fmt, code.cast("bitcast", magnitude, "f32")
        if fmt.rule == "amax":
            target = self._at_most(code, code.binary("divf", amax, code.f32(float(fmt.largest))))
            if shared is None:
                return target
            return self._at_most(code, code.binary("divf", target, shared))
        exponent = emit_exponent(code, magnitude)
        if fmt.rule != "floor":
            # The significand of a subnormal number, too, is that of its quotient by its own power of two.
            significand = self._significand(code, magnitude)
            limit = (
                float(fmt.largest) / 2.0 ** floor_log2(fmt.largest) if fmt.rule == "ceil" else 2 - 2.0**-fmt.precision
            )
            predicate = "ogt" if fmt.rule == "ceil" else "oge"
            is_beyond = code.compare(predicate, significand, code.f32(limit))
            exponent = code.binary("addi", exponent, code.cast("extui", is_beyond, "i32"))
        exponent = code.binary("subi", exponent, code.int(floor_log2(fmt.largest) & 0xFFFFFFFF))
        return self._power(code, exponent)

    def units(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """The element, as a multiple of the least one."""
        return code.binary("mulf", self._element(code, x, scaling, drawn), code.f32(2.0**-self.fmt.unit_exponent))

    def values(self, code: Code, x: Value, scaling: Scaling, parts: int, drawn: Value | None) -> list[Value]:
        """The element, where contractions apply the scales; otherwise the value."""
        element = self._element(code, x, scaling, drawn)
        return [code.binary("mulf", element, scaling.up[0]) if self.factors == "values" else element]

    def _element(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        if self.fmt.rule == GIVEN:
            return code.cast("bitcast", code.binary("shli", code.cast("bitcast", x, "i32"), code.int(16)), "f32")
        quotient = code.binary("divf", x, scaling.down[0])
        element = emit_round(code, quotient, saturating(self.fmt.element, self.to.rounding), noise=drawn)
        # In a group that is not finite there are quotients that are NaN.
        return code.select(code.compare("ord", element, element), element, code.f32(0.0))

    @staticmethod
    def _is_zero(code: Code, magnitude: Value) -> Value:
        return code.compare("eq", magnitude, code.int(0))

    @staticmethod
    def _at_most(code: Code, x: Value) -> Value:
        return code.binary("minimumf", x, code.f32(_LARGEST))

    @staticmethod
    def _significand(code: Code, magnitude: Value) -> Value:
        """That of a positive number, from 1 to 2."""
        normal = code.compare("uge", magnitude, code.int(1 << 23))
        counted = code.cast("bitcast", code.cast("sitofp", magnitude, "f32"), "i32")
        bits = code.binary("andi", code.select(normal, magnitude, counted), code.int(0x7FFFFF))
        return code.cast("bitcast", code.binary("ori", bits, code.int(F32.bias << 23)), "f32")

    @staticmethod
    def _power(code: Code, exponent: Value) -> Value:
        """2^exponent, of which half is below 2^-126."""
        low = code.binary("maxsi", exponent, code.int(-126 & 0xFFFFFFFF))
        rest = code.binary("maxsi", code.binary("subi", exponent, low), code.int(-126 & 0xFFFFFFFF))
        low = code.binary("minsi", low, code.int(127))
        low_power, rest_power = (
            code.cast("bitcast", code.binary("shli", code.binary("addi", e, code.int(127)), code.int(23)), "f32")
            for e in (low, rest)
        )
        return code.binary("mulf", low_power, rest_power)
