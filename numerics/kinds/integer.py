"""Uniform symmetric quantisation: one scale for a tensor, or for each channel of an operand; elements are integers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import FORMATS, Conversion, Fixed, Format
from numc.numerics.formats.kind import Kind
from numc.numerics.formats.rounding import round_real, rounder
from numc.numerics.groups import GroupConversion, GroupFormat, Noisy
from numc.numerics.kinds.exact_groups import is_negative, magnitude
from numc.numerics.kinds.exact_groups import to_integer as exact_integer
from numc.support.arguments import whole_number
from numc.support.errors import NumcError, quoted

if TYPE_CHECKING:
    from numc.numerics.codes import Bits
    from numc.numerics.float_arrays import F32Array, F64Array
    from numc.numerics.numpy_rounding import ToInteger

_FP32 = Conversion(FORMATS["fp32"])
_LARGEST = int(_FP32.format.max_finite * (1 << POINT))
_LARGEST_F32 = float(_FP32.format.max_finite)
_LEAST = 2.0**-149  # of scales: the smallest binary32 number


@dataclass(frozen=True)
class Int(GroupFormat):
    """s = max abs / (2^(bits-1) - 1) is the scale of a tensor, a value is s times an integer.

    The quotients, the scale and the values are binary32 numbers, to nearest even. Raises NumcError for sizes out of
    range.
    """

    datapaths: ClassVar[tuple[str, ...]] = ("fp32", "int")
    shares_tensor: ClassVar[bool] = True
    sums_integers: ClassVar[bool] = True

    bits: int

    def __post_init__(self) -> None:
        if not 4 <= self.bits <= 16:
            raise NumcError(f"format '{self.name}': {self.bits} bits, want 4 to 16")

    @property
    def group(self) -> None:
        """The whole tensor."""
        return None

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        return f"int{self.bits}"

    @property
    def precision(self) -> int:
        """Significant bits of an element."""
        return self.bits - 1

    @property
    def largest(self) -> int:
        """The largest integer; the smallest is its opposite."""
        return (1 << (self.bits - 1)) - 1

    @property
    def most_units(self) -> int:
        """The largest integer."""
        return self.largest

    @property
    def single(self) -> Format:
        """Two's complement."""
        return Fixed(self.bits - 1, 0)

    def has_codes(self, rounding: str) -> bool:
        """Integers times a scale are not exact: only the nearest ones are the same."""
        return rounding in ("rne", "rna")

    def group_bits(self, size: int) -> int:
        """Integers alone: the scale is the tensor's."""
        return size * self.bits

    def shared(self, largest: Value) -> Value:
        """The scale of a tensor, by its largest magnitude: 0 where that is 0, NaN where it is."""
        if type(largest) is not int:
            return math.nan
        if not largest:
            return 0
        exact = Fraction(largest, self.largest << POINT)
        return max(int(Fraction(round_real(exact, _FP32)) * (1 << POINT)), 1)

    def convert(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> list[Value]:
        """Integers times the scale, in binary32."""
        if type(shared) is not int:
            return [math.nan] * len(group)
        to_f32 = rounder(_FP32, POINT)
        results: list[Value] = []
        for value, noise in group:
            q = self._integer(value, to, shared, noise)
            product = to_f32(abs(q) * shared)
            size = product if type(product) is int else _LARGEST
            results.append(-size if q < 0 else size)
        return results

    def operands(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> list[Value]:
        """The integers."""
        return [self._integer(value, to, shared, noise) for value, noise in group]

    def _integer(self, value: Value, to: GroupConversion, scale: Value, noise: int) -> int:
        """The integer of a value; 0 where the scale is 0 or NaN, or the value is NaN.

        A scale that is not that of the tensor can leave values beyond the largest integer; they become that.
        """
        if type(scale) is not int or not scale or value != value:
            return 0
        if type(value) is float and math.isinf(value):
            return -self.largest if value < 0 else self.largest
        quotient = Fraction(round_real(Fraction(magnitude(value), scale), _FP32))
        q = min(exact_integer(quotient, to, is_negative(value), noise), self.largest)
        return -q if is_negative(value) else q

    def shared_by(self, largest: float) -> float:
        """Return the scale of a tensor by its largest magnitude, as `shared` does."""
        import numpy as np

        if not math.isfinite(largest):
            return math.nan
        return max(float(np.float32(largest) / np.float32(self.largest)), _LEAST) if largest else 0.0

    def quantize(self, values: F32Array, shared: float, to_integer: ToInteger) -> tuple[F64Array, F64Array]:
        """Elements are integers; a zero has no sign."""
        import numpy as np

        from numc.numerics import numpy_rounding as arrays

        finite = np.isfinite(shared)
        quotients = values / np.float32(shared or 1.0) if finite else np.zeros_like(values)
        elements = arrays.rounded(quotients.astype(np.float64), to_integer, self.largest) + 0.0
        return elements, np.full((len(values), 1), shared)

    def values_of(self, elements: F64Array, scales: F64Array, shared: float) -> F32Array:
        """Products rounded to binary32; the largest ones may not leave its range by that."""
        import numpy as np

        values: F32Array = np.clip(elements * scales, -_LARGEST_F32, _LARGEST_F32).astype(np.float32)
        return values

    def to_bits(self, elements: F64Array, scales: F64Array, shared: float) -> Bits:
        """Integers in two's complement."""
        import numpy as np

        from numc.numerics.codes import bits_of_codes

        return bits_of_codes(elements.astype(np.int64) & (1 << self.bits) - 1, self.bits)

    def from_bits(self, bits: Bits, size: int, shared: float) -> tuple[F64Array, F64Array]:
        """The inverse of `to_bits`."""
        import numpy as np

        from numc.numerics.codes import codes_of_bits, signed_codes

        integers = signed_codes(codes_of_bits(bits.reshape(len(bits), size, self.bits)), self.bits)
        return integers, np.full((len(bits), 1), shared)

    @property
    def encoding(self) -> tuple[str, int, int] | None:
        """The runtime reads the integers, as contractions take them."""
        return "int", 0, self.bits


_INTN = re.compile(r"int([0-9]+)")


def _read(name: str, sizes: Sequence[str] | None) -> Int | None:
    match = _INTN.fullmatch(name)
    return Int(whole_number(match[1], f"format {quoted(name)}")) if match and sizes is None else None


KIND = Kind(
    name="intN",
    formats={"int4": Int(4), "int8": Int(8), "int12": Int(12), "int16": Int(16)},
    read=_read,
    syntax="intN",
)
