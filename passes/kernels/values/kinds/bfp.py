"""Code for block floating point: the exponent of a group, and magnitudes with their signs."""

from __future__ import annotations

from dataclasses import dataclass

from numc.numerics.kinds.bfp import CHUNK, Bfp
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value
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

_LEAST = 149  # all binary32 numbers are multiples of 2^-149: smaller units are not needed


@dataclass(frozen=True)
class BfpCode(GroupCode):
    """Units are the integers M of the format's values."""

    fmt: Bfp

    def shared(self, code: Code, largest: Value) -> Value | None:
        """The lowest exponent of a group: the bottom of the window."""
        return code.binary("subi", emit_exponent(code, largest), code.int(self.fmt.window))

    def scaling(self, code: Code, magnitude: Value, shared: Value | None) -> Scaling:
        """Powers of two by the exponents of groups."""
        assert shared is not None
        exponent = code.binary("maxsi", emit_exponent(code, magnitude), shared)
        shift = code.binary("subi", self._bits(code, below=1), exponent)
        return scaling_by_power(code, magnitude, code.binary("minsi", shift, code.int(_LEAST)))

    def units(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """M, with its sign."""
        near = self.near(code, x, scaling, drawn)
        return code.unary("math.roundeven", near) if self._is_nearest else near

    def near(self, code: Code, x: Value, scaling: Scaling, drawn: Value | None) -> Value:
        """M as a number, before it is rounded to nearest even."""
        y = scale_down(code, x, scaling)
        if self.to.discard:
            return self._truncated(code, y, drawn)
        if not self._is_nearest:
            y = round_to_integer(code, y, x, back=lambda u: scale_up(code, u, scaling), to=self.to, drawn=drawn)
        # Truncated magnitudes are below 2^m as they are: no exponent is below that of its group.
        if self.to.rounding == "rtz":
            return y
        if self.width is None:
            return clamp(code, y, float(self.fmt.largest))
        beyond = code.binary("shli", code.int(1), self._bits(code))
        return clamp(code, y, code.cast("sitofp", code.binary("subi", beyond, code.int(1)), "f32"))

    @property
    def _is_nearest(self) -> bool:
        """Whether units are the nearest integers, to even, of magnitudes that are limited before."""
        return self.to.rounding == "rne" and not self.to.discard

    def _truncated(self, code: Code, y: Value, drawn: Value | None) -> Value:
        """`y` rounded with more bits, of which the lowest are cut off."""
        cut = code.binary("subi", code.int(self.to.discard), self._bits(code))
        up, down = (
            code.cast("bitcast", code.binary("shli", code.binary(name, code.int(127), cut), code.int(23)), "f32")
            for name in ("addi", "subi")
        )
        y = code.binary("mulf", y, up)
        units = round_to_integer(code, y, y, back=lambda u: u, to=self.to, drawn=drawn)
        units = clamp(code, units, float((1 << self.to.discard) - 1))
        return code.unary("math.trunc", code.binary("mulf", units, down))

    def _bits(self, code: Code, below: int = 0) -> Value:
        """The number of magnitude bits less `below`."""
        if self.width is None:
            return code.int(self.fmt.magnitude_bits - below)
        bits = code.broadcast(code.scalar.cast("trunci", self.width, "i32"))
        return code.binary("subi", bits, code.int(below))

    def values(self, code: Code, x: Value, scaling: Scaling, parts: int, drawn: Value | None) -> list[Value]:
        """The value, exact in binary32, or the chunks of its magnitude in their places, the most significant first."""
        units = self.units(code, x, scaling, drawn)
        chunks = []
        for n in range(1, parts):
            # What lies above the chunks that are left; where there is an odd number of bits, the last one has one.
            weight = 2.0 ** (self.fmt.magnitude_bits - n * CHUNK)
            top = code.unary("math.trunc", code.binary("mulf", units, code.f32(1 / weight)))
            chunks.append(code.binary("mulf", top, code.f32(weight)))
            units = code.binary("subf", units, chunks[-1])
        return [scale_up(code, chunk, scaling) for chunk in (*chunks, units)]
