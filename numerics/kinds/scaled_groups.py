"""Groups of elements in any format of few values, with a scale in a format, by a rule, and perhaps one for the tensor.

nvfp4 is the best known: elements e2m1, groups of 16, scales e4m3, and a binary32 scale for the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from numc.numerics.exact.value import ONE, POINT, Value
from numc.numerics.formats import FORMATS, Conversion, Fixed, Format, Posit, exmy, floor_log2
from numc.numerics.formats.format import power
from numc.numerics.formats.rounding import round_real, rounder
from numc.numerics.groups import GroupConversion, GroupFormat, Noisy
from numc.numerics.kinds.exact_groups import is_finite, is_negative, magnitude
from numc.support.errors import NumcError, quoted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from numc.numerics.codes import Bits
    from numc.numerics.float_arrays import F32Array, F64Array
    from numc.numerics.numpy_rounding import ToInteger

RULES = ("floor", "ceil", "nearest", "amax", "inverse")
GIVEN = "given"
"""The rule of words that hold a scale and an element each: what numc has converted, not what users write."""
ROW = (1 << 31) - 1
"""The group of a whole row: it is cut where the row ends."""
E8M0 = FORMATS["e8m0fnu"]
MOST_BITS = 8  # of an element, whose values are listed
_FP32, _SATURATING = Conversion(FORMATS["fp32"]), Conversion(FORMATS["fp32"], overflow="sat")
_LARGEST = float(_FP32.format.max_finite)
_LEAST = 2.0**-POINT


@dataclass(frozen=True)
class ScaledGroups(GroupFormat):
    """`group` values share a scale; a value is its element times the scale, times the tensor's scale if there is one.

    element: their format; an integer is fixed point without a fraction. scale: that of the scales. rule: "amax" takes
    the largest magnitude to the largest element, the others are powers of two, as those of `Mx`. tensor: there is a
    scale in binary32 for the whole tensor, by which scales of groups fill the range of their format. rows: so many
    neighbouring rows have one scale for their groups at the same steps. group, rows: None is all of the tensor.
    Raises NumcError for formats that are no elements or scales, and for combinations that mean nothing.
    """

    datapaths: ClassVar[tuple[str, ...]] = ("fp32", "fused")
    finite_only: ClassVar[bool] = True
    sums_exactly: ClassVar[bool] = False
    sums_elements: ClassVar[bool] = True

    element: Format
    group: int | None
    scale: Format
    rule: str
    tensor: bool = False
    rows: int | None = 1

    def __post_init__(self) -> None:
        what = f"format '{self.name}'"
        if self.group is not None and self.group < 1:
            raise NumcError(f"{what}: groups of {self.group} values, want 1 or more")
        if self.rows is not None and self.rows < 1:
            raise NumcError(f"{what}: rows={self.rows}, want 1 or more")
        if self.rule not in (*RULES, GIVEN):
            raise NumcError(f"{what}: rule {quoted(self.rule)}, want {', '.join(RULES[:-1])} or {RULES[-1]}")
        if not self.takes(self.element):
            raise NumcError(f"{what}: element '{self.element.name}', want {ELEMENTS}")
        if not is_scale(self.scale):
            raise NumcError(f"{what}: scale={self.scale.name}, want {SCALES}")
        if self.rule == "inverse" and self.scale != _FP32.format:
            raise NumcError(f"{what}: rule=inverse multiplies by a number in fp32: want scale=fp32")
        if self.tensor and (self.rule != "amax" or self.largest * self.scale.max_finite >= 1 << 128):
            raise NumcError(f"{what}: tensor=fp32 is for rule=amax, and for scales of less range than binary32's")
        if self.tensor and self.group is None:
            raise NumcError(f"{what}: the group is the tensor, which has one scale: leave tensor=fp32 out")

    def takes(self, element: Format) -> bool:
        """Whether a format can be that of its elements."""
        return is_element(element)

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        if (named := _NAMES.get(self)) is not None:
            return named
        plain = "floor" if self.scale == E8M0 else "amax"
        rest = ("" if self.rule == plain else f",rule={self.rule}") + (",tensor=fp32" if self.tensor else "")
        rest += "" if self.rows in (1, None) else f",rows={self.rows}"
        group = {None: "tensor", ROW: "row"}.get(self.group, str(self.group))
        return f"mx({element_name(self.element)},{group},scale={self.scale.name}{rest})"

    @property
    def written_out(self) -> bool:
        """Kernels take groups of one row, of a size that is a number, by the rules that give a scale to divide by."""
        return self.rows != 1 or self.group in (None, ROW) or self.rule == "inverse"

    @property
    def holds_scales(self) -> bool:
        """By a rule of numc's own."""
        return self.rule == GIVEN

    @property
    def shares_tensor(self) -> bool:
        """Where the tensor has a scale."""
        return self.tensor

    @property
    def precision(self) -> int:
        """Significant bits of an element."""
        return self.element.precision

    @property
    def largest(self) -> Fraction:
        """The largest element."""
        return self.element.max_finite

    @property
    def unit_exponent(self) -> int:
        """The exponent of two that elements are multiples of."""
        return self.element.unit_exponent

    @property
    def most_units(self) -> int:
        """The largest magnitude of an element, in such units."""
        return int(self.element.max_finite / power(self.unit_exponent))

    @property
    def single(self) -> Format:
        """The format of elements."""
        return self.element

    @property
    def scales(self) -> Format:
        """The format of the scales of groups."""
        return self.scale

    def group_bits(self, size: int) -> int:
        """The scale, then the elements."""
        return self.scale.bits + size * self.element.bits

    # The definition.

    def shared(self, largest: Value) -> Value:
        """The scale of the tensor: its largest magnitude / (the largest scale * the largest element), in binary32."""
        if not self.tensor or type(largest) is not int or not largest:
            return 0
        return max(_quanta(round_real(_real(largest) / self._most, _FP32)), 1)

    @property
    def _most(self) -> Fraction:
        """The largest magnitude of a tensor whose scale is 1, a binary32 number."""
        return Fraction(round_real(self.largest * self.scale.max_finite, _FP32))

    def convert(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> list[Value]:
        """The values of one group, in binary32."""
        elements, factor = self.parted(group, to, shared)
        if factor != factor:
            return [math.nan] * len(group)
        return [_signed(_real(magnitude(x)) * _real(factor), is_negative(x)) for x in elements]

    def parted(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> tuple[list[Value], Value]:
        """The elements of one group, and what they are multiplied by; that is NaN if not all values are finite."""
        elements, scale = self.scaled(group, to, shared)
        return elements, scale if type(scale) is float else self._factor(int(scale), shared)

    def scaled(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> tuple[list[Value], Value]:
        """Elements, and the scale of the group without that of the tensor."""
        if self.rule == GIVEN:
            return _unjoined([value for value, _ in group])
        if not is_finite([value for value, _ in group]):
            return [0] * len(group), math.nan
        rounded = rounder(saturating(self.element, to.rounding), POINT)
        largest = max(magnitude(value) for value, _ in group)
        if self.rule == "inverse":
            by = self._multiplier(largest)
            products = [_signed(_real(magnitude(value)) * _real(by), is_negative(value)) for value, _ in group]
            elements = [rounded(product, noise) for product, (_, noise) in zip(products, group, strict=True)]
            return elements, _quanta(round_real(1 / _real(by), _FP32))
        scale = self._scale_of(largest, shared)
        factor = self._factor(scale, shared)
        return [rounded(_divided(value, factor), noise) for value, noise in group], scale

    def _multiplier(self, largest: int) -> int:
        """The factor of values under the rule "inverse", in quanta: 1 where all are zeros."""
        return _quanta(round_real(self.largest / _real(largest), _SATURATING)) if largest else ONE

    def tensor_scale(self, shared: Value) -> Value:
        """That of the tensor."""
        return shared if self.tensor else ONE

    def _factor(self, scale: int, shared: Value) -> int:
        """The scale of a group times that of its tensor, in quanta: binary32 numbers, the largest one at most."""
        return _quanta(round_real(_real(scale) * _real(self.tensor_scale(shared)), _SATURATING))

    def _scale_of(self, largest: int, shared: Value) -> int:
        """The scale of a group of this largest magnitude, in quanta. It is zero for a group of zeros only."""
        if not largest:
            scale = 0.0 if self.scale.has_zero else float(self.scale.min_subnormal)
        else:
            scale = round_real(self._target(_real(largest), _real(shared)), saturating(self.scale, "rne"))
            scale = scale or float(self.scale.min_subnormal)
        return _quanta(scale)

    def _target(self, amax: Fraction, tensor: Fraction) -> float:
        """The number that the scale is rounded from."""
        if self.rule != "amax":
            return math.ldexp(1.0, self._exponent(amax))
        target = round_real(amax / self.largest, _SATURATING)
        return round_real(Fraction(target) / tensor, _SATURATING) if self.tensor else target

    def _exponent(self, amax: Fraction) -> int:
        """That of a scale that is a power of two."""
        exponent = floor_log2(amax)
        if self.rule == "nearest" and amax >= power(exponent) * (2 - power(-self.element.precision)):
            exponent += 1
        exponent -= floor_log2(self.largest)
        return exponent + (self.rule == "ceil" and amax > self.largest * power(exponent))

    # The same on arrays.

    def shared_by(self, largest: float) -> float:
        """As `shared`, on arrays."""
        import numpy as np

        if not self.tensor or not math.isfinite(largest) or not largest:
            return 0.0
        return max(float(np.float32(largest) / np.float32(self._most)), _LEAST)

    def quantize(self, values: F32Array, shared: float, to_integer: ToInteger) -> tuple[F64Array, F64Array]:
        """Elements, and the scales of groups, without that of the tensor."""
        import numpy as np

        from numc.numerics import numpy_rounding as arrays

        if self.rule == GIVEN:
            return unjoined(values)
        largest = arrays.largest_magnitudes(values)
        is_nan = ~np.isfinite(largest)
        if self.rule == "inverse":
            most = np.where(is_nan | (largest == 0), float(self.largest), largest).astype(np.float32)
            by = np.minimum(np.float32(self.largest) / most, np.float32(_LARGEST))[:, None]
            products: F32Array = (np.where(is_nan[:, None], np.float32(0), values) * by).astype(np.float32)
            inverse = (np.float32(1) / by).astype(np.float64)
            return to_integer.to_format(products, self.element), np.where(is_nan[:, None], np.nan, inverse)
        scales = self._scales(np.where(is_nan, 0, largest).astype(np.float32), shared)[:, None]
        factors = self.factors(scales, shared)
        finite = np.where(is_nan[:, None], np.float32(0), values)
        quotients: F32Array = (finite / np.where(factors == 0, np.float32(np.inf), factors)).astype(np.float32)
        return to_integer.to_format(quotients, self.element), np.where(is_nan[:, None], np.nan, scales)

    def _scales(self, largest: F32Array, shared: float) -> F64Array:
        import numpy as np

        from numc.numerics import numpy_rounding as arrays
        from numc.numerics.float_arrays import power

        if self.rule == "amax":
            target = np.minimum(largest / np.float32(self.largest), np.float32(_LARGEST))
            if self.tensor:
                target = np.minimum(target / np.float32(shared or 1), np.float32(_LARGEST))
        else:
            target = power(self._exponents(largest.astype(np.float64)))
        rounded, least = arrays.to_record(target.astype(np.float64), self.scale), float(self.scale.min_subnormal)
        return np.where(largest == 0, 0.0 if self.scale.has_zero else least, np.where(rounded == 0, least, rounded))

    def _exponents(self, amax: F64Array) -> npt.NDArray[np.int64]:
        """Those of scales that are powers of two."""
        import numpy as np

        from numc.numerics.float_arrays import exponents, power

        exponent = np.maximum(exponents(amax), -POINT)
        if self.rule == "nearest":
            exponent += amax >= power(exponent) * (2 - 2.0**-self.element.precision)
        exponent -= floor_log2(self.largest)
        return exponent + (amax > float(self.largest) * power(exponent)) if self.rule == "ceil" else exponent

    def factors(self, scales: F64Array, shared: float) -> F32Array:
        """Return what elements are multiplied by: scales, times that of the tensor, in binary32."""
        import numpy as np

        factors: F32Array = scales.astype(np.float32)
        if self.tensor:
            factors = np.minimum(factors * np.float32(shared), np.float32(_LARGEST))
        return factors

    def values_of(self, elements: F64Array, scales: F64Array, shared: float) -> F32Array:
        """Products rounded to binary32."""
        values: F32Array = (elements * self.factors(scales, shared)).astype("float32")
        return values

    # Bits.

    def to_bits(self, elements: F64Array, scales: F64Array, shared: float) -> Bits:
        """The code of the scale, then those of the elements."""
        import numpy as np

        from numc.numerics.codes import bits_of_codes

        is_nan = np.isnan(scales)
        head = bits_of_codes(self.scale.encode_array(scales.astype(np.float32)), self.scale.bits)
        codes = self.element.encode_array(elements.astype(np.float32))
        return np.concatenate([head, bits_of_codes(np.where(is_nan, 0, codes), self.element.bits)], axis=1)

    def from_bits(self, bits: Bits, size: int, shared: float) -> tuple[F64Array, F64Array]:
        """The inverse of `to_bits`."""
        import numpy as np

        from numc.numerics.codes import codes_of_bits

        head = self.scale.bits
        scales = self.scale.decode_array(codes_of_bits(bits[:, None, :head])).astype(np.float64)
        codes = codes_of_bits(bits[:, head:].reshape(len(bits), size, self.element.bits))
        return self.element.decode_array(codes).astype(np.float64), scales


def with_scales(to: GroupConversion) -> GroupConversion:
    """Return a conversion to a format of MX as one to elements and scales, which its values are the same as."""
    fmt = to.format
    if isinstance(fmt, ScaledGroups):
        return to
    assert fmt.single is not None
    assert fmt.scales is not None
    return replace(to, format=ScaledGroups(fmt.single, fmt.group, fmt.scales, fmt.rule))  # type: ignore[attr-defined]


def in_words(to: GroupConversion) -> GroupConversion:
    """Return a conversion to elements and scales as that of words of both, which `with_scales` has made."""
    assert isinstance(to.format, ScaledGroups)
    return GroupConversion(replace(to.format, rule=GIVEN, rows=1, tensor=False), "rne")


def is_element(fmt: Format) -> bool:
    """Whether a format can be that of elements."""
    return fmt.parts == 1 and fmt.bits <= MOST_BITS and fmt.signed and not isinstance(fmt, Posit)


def is_scale(fmt: Format) -> bool:
    """Whether a format can be that of scales."""
    return fmt == E8M0 or (fmt.parts == 1 and fmt.is_usual and fmt.is_gradual and fmt.has_nan)


def saturating(fmt: Format, rounding: str) -> Conversion:
    """Return the conversion to a format in which nothing is beyond the largest value."""
    return Conversion(fmt, rounding, "sat" if fmt.has_infinities else "")


def element_name(element: Format) -> str:
    """Return the text of an element: fixed point without a fraction is an integer."""
    if not isinstance(element, Fixed) or element.unit_exponent:
        return element.name
    return f"{'' if element.signed else 'u'}int{element.bits}"


def joined(elements: F32Array, scales: F64Array) -> F32Array:
    """Return words that hold a scale in their upper half and an element in their lower one, both as bfloat16."""
    import numpy as np

    upper = np.broadcast_to(scales.astype(np.float32), elements.shape).view(np.uint32) & np.uint32(0xFFFF0000)
    words: F32Array = (upper | np.ascontiguousarray(elements).view(np.uint32) >> np.uint32(16)).view(np.float32)
    return words


def unjoined(words: F32Array) -> tuple[F64Array, F64Array]:
    """Return the elements of groups (n, size) and their scales (n, 1) that words hold."""
    import numpy as np

    bits = np.ascontiguousarray(words).view(np.uint32)
    scales = (bits[:, :1] & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    elements = (bits << np.uint32(16)).view(np.float32).astype(np.float64)
    return np.where(np.isnan(scales), 0.0, elements), scales


def _unjoined(words: Sequence[Value]) -> tuple[list[Value], Value]:
    """`unjoined` in exact numbers."""
    import numpy as np

    from numc.numerics.exact.value import from_bits, to_array

    elements, scales = unjoined(to_array(words, (1, len(words))))
    *exact, scale = map(from_bits, np.append(elements, scales).astype(np.float32).view(np.uint32).tolist())
    return exact, scale


def _divided(value: Value, factor: int) -> Value:
    """A value divided by a number of quanta, in binary32; zero where that is zero."""
    return _signed(Fraction(magnitude(value), factor) if factor else Fraction(0), is_negative(value))


def _signed(size: Fraction, negative: bool) -> Value:
    """A binary32 number of this magnitude; beyond the largest one it is an infinity."""
    result = round_real(size, _FP32)
    rounded: Value = result if math.isinf(result) else _quanta(result)
    return (-rounded or -0.0) if negative else rounded


def _real(value: Value) -> Fraction:
    return Fraction(int(value), 1 << POINT)


def _quanta(x: float) -> int:
    """A finite binary32 number in quanta."""
    return int(Fraction(x) * (1 << POINT))


ELEMENTS = f"intN, uintN or a signed format of up to {MOST_BITS} bits that is no posit, such as e2m1fn or nf4"
SCALES = "e8m0fnu, or eXmY or eXmYfn with a NaN, such as e4m3fn, fp16 or fp32"

_NAMES: dict[ScaledGroups, str] = {}
NVFP4 = ScaledGroups(exmy(2, 1, finite=True), 16, exmy(4, 3, finite=True), "amax", tensor=True)
_NAMES[NVFP4] = "nvfp4"
