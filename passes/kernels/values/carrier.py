"""The binary interchange formats that hold values."""

from __future__ import annotations

from dataclasses import dataclass

from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value, f32_bits, f64_bits


@dataclass(frozen=True)
class Carrier:
    """A binary interchange format that holds the values: its MLIR types and its encoding."""

    f: str
    i: str
    significand_bits: int
    bias: int

    @property
    def sign(self) -> int:
        """The mask of the sign bit."""
        return 1 << (int(self.i[1:]) - 1)

    @property
    def infinity(self) -> int:
        """The encoding of +infinity; anything larger (without sign) is a NaN."""
        return (2 * self.bias + 1) << self.significand_bits

    @property
    def nan(self) -> int:
        """The encoding of the quiet NaN."""
        return self.infinity | 1 << (self.significand_bits - 1)

    def power(self, exponent: int) -> int:
        """The encoding of ``2 ** exponent`` (normal range)."""
        return (exponent + self.bias) << self.significand_bits

    def encoding(self, value: float) -> int:
        """The encoding of a positive number that it has."""
        return f32_bits(value) if self.f == "f32" else f64_bits(value)

    def constant(self, code: Code, value: float) -> Value:
        """A float constant of the carrier."""
        return code.f32(value) if self.f == "f32" else code.f64(value)


F32 = Carrier("f32", "i32", 23, 127)
F64 = Carrier("f64", "i64", 52, 1023)
