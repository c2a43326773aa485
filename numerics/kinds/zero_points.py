"""Groups of integers without a sign that have a zero point beside their scale, as GPTQ and AWQ store weights.

Source: E. Frantar et al., GPTQ (arXiv 2210.17323), and the quantiser of its authors' code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import FORMATS, Conversion, Fixed, Format
from numc.numerics.formats.rounding import round_real
from numc.numerics.groups import GroupConversion, Noisy
from numc.numerics.kinds.exact_groups import is_finite, is_negative, magnitude
from numc.numerics.kinds.exact_groups import to_integer as exact_integer
from numc.numerics.kinds.scaled_groups import ScaledGroups, saturating
from numc.support.errors import NumcError

if TYPE_CHECKING:
    from numc.numerics.codes import Bits
    from numc.numerics.float_arrays import F32Array, F64Array
    from numc.numerics.numpy_rounding import ToInteger

_F32 = Conversion(FORMATS["fp32"])


@dataclass(frozen=True)
class ZeroPoints(ScaledGroups):
    """A value is (q - z) times the scale, with integers q and z from 0 on; the range of a group holds 0.

    Raises NumcError for elements that are no such integers, and for another rule than "amax".
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule != "amax" or self.tensor or self.scale.has_zero is False:
            raise NumcError(
                f"format '{self.name}': zero points come with a scale by the range of a group: want "
                f"scale=fp16, bf16 or fp32, and neither a rule nor tensor=fp32"
            )

    def takes(self, element: Format) -> bool:
        """Integers without a sign."""
        return isinstance(element, Fixed) and not element.signed and element.unit_exponent == 0

    @property
    def written_out(self) -> bool:
        """No kernel converts them."""
        return True

    @property
    def single(self) -> None:  # type: ignore[override]
        """Elements are differences, which have a sign."""
        return None

    def group_bits(self, size: int) -> int:
        """The scale, the zero point, then the integers."""
        return self.scale.bits + (1 + size) * self.element.bits

    # The definition.

    def scaled(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> tuple[list[Value], Value]:
        """The differences of integers and the zero point, and the scale."""
        values = [value for value, _ in group]
        if not is_finite(values):
            return [0] * len(group), math.nan
        sizes = [-magnitude(x) if is_negative(x) else magnitude(x) for x in values]
        low, high = (Fraction(limit(0, *sizes), 1 << POINT) for limit in (min, max))
        scale = self._scale_of_range(low, high)
        if not scale:
            return [0] * len(group), 0
        most = int(self.largest)
        zero = min(round(Fraction(round_real(-low / scale, _F32))), most)
        elements: list[Value] = []
        for size, (_, noise) in zip(sizes, group, strict=True):
            quotient = Fraction(round_real(Fraction(abs(size), 1 << POINT) / scale, _F32))
            whole = exact_integer(quotient, to, size < 0, noise)
            q = max(0, min(most, (-whole if size < 0 else whole) + zero))
            elements.append(q - zero << POINT)
        return elements, int(scale * (1 << POINT))

    def _scale_of_range(self, low: Fraction, high: Fraction) -> Fraction:
        """That of a group whose values are between these; zero for zeros only."""
        if low == high:
            return Fraction(0)
        width = Fraction(round_real(high - low, saturating(_F32.format, "rne")))
        target = round_real(width / self.largest, _F32)
        return Fraction(round_real(target, saturating(self.scale, "rne"))) or self.scale.min_subnormal

    # The same on arrays: scales (n, 2) have the zero point behind the scale.

    def quantize(self, values: F32Array, shared: float, to_integer: ToInteger) -> tuple[F64Array, F64Array]:
        """Differences, and scales with zero points."""
        import numpy as np

        from numc.numerics import numpy_rounding as arrays

        is_nan = ~np.isfinite(arrays.largest_magnitudes(values))[:, None]
        finite = np.where(is_nan, np.float32(0), values)
        low, high = np.minimum(finite.min(1), 0)[:, None], np.maximum(finite.max(1), 0)[:, None]
        width = np.minimum(high - low, np.float32(_F32.format.max_finite))
        target = (width / np.float32(self.largest)).astype(np.float64)
        scales = arrays.to_record(target, self.scale)
        scales = np.where(scales == 0, float(self.scale.min_subnormal), scales)
        divisor = np.where(width == 0, np.float32(np.inf), scales.astype(np.float32))
        zero = np.minimum(np.rint((-low / divisor).astype(np.float64)), float(self.largest))
        whole = to_integer((finite / divisor).astype(np.float64))
        elements = np.clip(whole + zero, 0.0, float(self.largest)) - zero
        scales = np.where(is_nan, np.nan, np.where(width == 0, 0.0, scales))
        return elements + 0.0, np.concatenate([scales, zero], axis=1)

    def factors(self, scales: F64Array, shared: float) -> F32Array:
        """The scales alone."""
        factors: F32Array = scales[:, :1].astype("float32")
        return factors

    def to_bits(self, elements: F64Array, scales: F64Array, shared: float) -> Bits:
        """The code of the scale, the zero point, then the integers."""
        import numpy as np

        from numc.numerics.codes import bits_of_codes

        head = bits_of_codes(self.scale.encode_array(scales[:, :1].astype(np.float32)), self.scale.bits)
        integers = np.concatenate([scales[:, 1:], elements + scales[:, 1:]], axis=1)
        return np.concatenate([head, bits_of_codes(integers.astype(np.int64), self.element.bits)], axis=1)

    def from_bits(self, bits: Bits, size: int, shared: float) -> tuple[F64Array, F64Array]:
        """The inverse of `to_bits`."""
        import numpy as np

        from numc.numerics.codes import codes_of_bits

        head = self.scale.bits
        scales = self.scale.decode_array(codes_of_bits(bits[:, None, :head])).astype(np.float64)
        codes = codes_of_bits(bits[:, head:].reshape(len(bits), 1 + size, self.element.bits)).astype(np.float64)
        return codes[:, 1:] - codes[:, :1], np.concatenate([scales, codes[:, :1]], axis=1)
