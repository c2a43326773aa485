"""Microscaling (OCP MX v1.0): a block shares a power of two (E8M0), elements are small floats or integers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import KINDS, Fixed, Format, Record, exmy, floor_log2
from numc.numerics.formats.kind import Kind
from numc.numerics.groups import GroupConversion, GroupFormat, Noisy
from numc.numerics.kinds.exact_groups import (
    exponent,
    is_finite,
    is_negative,
    magnitude,
    signed,
    times_power,
    units,
)
from numc.numerics.kinds.scaled_groups import E8M0, ELEMENTS, NVFP4, ROW, SCALES, ScaledGroups
from numc.numerics.kinds.scaled_groups import RULES as ALL_RULES
from numc.numerics.kinds.zero_points import ZeroPoints
from numc.support.arguments import whole_number
from numc.support.errors import NumcError, quoted

if TYPE_CHECKING:
    from numc.numerics.codes import Bits
    from numc.numerics.float_arrays import F32Array, F64Array
    from numc.numerics.numpy_rounding import ToInteger

SCALE_BITS = 8  # E8M0: 2^(code - 127), all ones is NaN
SCALE_BIAS = 127
_NAN = (1 << SCALE_BITS) - 1
OCP_GROUP = 32
RULES = ("floor", "ceil", "nearest")
MOST_BITS, MOST_EXPONENT_BITS = 8, 5  # of an element
_INTEGER = re.compile("(u?)int([2-8])")


@dataclass(frozen=True)
class Mx(GroupFormat):
    """Blocks of elements with one scale; MX v1.0 has blocks of 32.

    exponent_bits: of an element; 0 is a two's complement integer of 2^-significand_bits (INT8).
    largest: the largest finite element, which says how many of the highest codes are no numbers. rule: "floor" scales
    by the exponent of the largest magnitude, "nearest" by that of the largest magnitude rounded to the bits of an
    element, "ceil" so that this magnitude is not beyond the largest element. element: the text of the element, for
    other blocks and rules. Raises NumcError for blocks of no values and for other rules.
    """

    datapaths: ClassVar[tuple[str, ...]] = ("fp32", "fused")
    sums_exactly: ClassVar[bool] = False

    exponent_bits: int
    significand_bits: int
    largest: Fraction
    group: int = OCP_GROUP
    rule: str = "floor"
    element: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.group < 1:
            raise NumcError(f"format '{self.name}': groups of {self.group} values, want 1 or more")
        if self.rule not in RULES:
            raise NumcError(f"format '{self.name}': rule {quoted(self.rule)}, want {', '.join(RULES)} or amax")

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        if self.element and not (self.rule == "floor" and self.group == OCP_GROUP and self in OCP.values()):
            return f"mx({self.element},{self.group}{'' if self.rule == 'floor' else f',{self.rule}'})"
        if not self.exponent_bits:
            return f"mxint{self.element_bits}"
        return f"mxfp{self.element_bits}_e{self.exponent_bits}m{self.significand_bits}"

    @property
    def precision(self) -> int:
        """Significant bits of an element."""
        return self.significand_bits + 1

    @property
    def emin(self) -> int:
        """The exponent of the smallest normal element; below it, and in integers, the step is the same everywhere."""
        return 2 - (1 << (self.exponent_bits - 1)) if self.exponent_bits else 0

    @property
    def emax(self) -> int:
        """The exponent of the largest element."""
        return floor_log2(self.largest)

    @property
    def unit_exponent(self) -> int:
        """The exponent of the smallest element."""
        return self.emin - self.significand_bits

    @property
    def most_units(self) -> int:
        """The largest element, in the smallest one."""
        return int(self.largest / Fraction(2) ** self.unit_exponent)

    @property
    def element_bits(self) -> int:
        """Storage of an element: a sign, the exponent (in an integer: the bit of the ones), the significand."""
        return 1 + max(self.exponent_bits, 1) + self.significand_bits

    @property
    def code_bits(self) -> int:
        """The code of an element is that in which it is stored."""
        return self.element_bits

    @property
    def single(self) -> Format | None:
        """The format of elements that are floats, by their largest one."""
        if not self.exponent_bits:
            return None
        both = (exmy(self.exponent_bits, self.significand_bits, finite=finite) for finite in (False, True))
        return next((fmt for fmt in both if fmt.max_finite == self.largest), None)

    @property
    def elements(self) -> Format | None:
        """Integers are fixed point with one bit before the point."""
        return self.single if self.exponent_bits else Fixed(1, self.significand_bits)

    @property
    def scales(self) -> Format:
        """Powers of two."""
        return E8M0

    def has_codes(self, rounding: str) -> bool:
        """Any rounding leaves elements as they are, and the largest one of a block keeps its exponent.

        By the other rule the scale of what has been rounded can be smaller.
        """
        return self.rule == "floor"

    def group_bits(self, size: int) -> int:
        """The scale, then the elements."""
        return SCALE_BITS + size * self.element_bits

    def convert(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> list[Value]:
        """The values of one block: section 6.3 of the specification."""
        scale = self._scale([value for value, _ in group])
        if scale is None:
            return [math.nan] * len(group)
        return [self._element(value, to, scale, noise) for value, noise in group]

    def scaled(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> tuple[list[Value], Value]:
        """Elements and a power of two."""
        scale = self._scale([value for value, _ in group])
        if scale is None:
            return [0] * len(group), math.nan
        values = (self._element(value, to, scale, noise) for value, noise in group)
        elements: list[Value] = [signed(times_power(magnitude(x), -scale), is_negative(x)) for x in values]
        return elements, times_power(1, scale + POINT)

    def _scale(self, values: Sequence[Value]) -> int | None:
        """The exponent of the scale of a group; None if not all values are finite."""
        if not is_finite(values):
            return None
        own = exponent(values)
        scale = (self.emax if own is None else own) - self.emax  # zeros: any scale will do
        most = max(map(magnitude, values))
        if self.rule == "nearest" and own is not None and most >= (2 - 2.0**-self.precision) * 2 ** (own + POINT):
            scale += 1
        if self.rule == "ceil" and most > self.largest * Fraction(2) ** (scale + POINT):
            scale += 1
        return max(scale, -SCALE_BIAS)

    def _element(self, value: Value, to: GroupConversion, scale: int, noise: int) -> Value:
        own = max(magnitude(value).bit_length() - 1 - POINT - scale, self.emin)
        shift = own - self.significand_bits + scale + POINT
        size = times_power(units(value, shift, to, noise), shift)
        largest = int(self.largest * Fraction(2) ** (scale + POINT))
        has_minus_zero = self.exponent_bits > 0
        result = signed(min(size, largest), is_negative(value))
        return result if result or has_minus_zero else 0

    def quantize(self, values: F32Array, shared: float, to_integer: ToInteger) -> tuple[F64Array, F64Array]:
        """Elements are floats, or multiples of 2^-significand_bits."""
        import numpy as np

        from numc.numerics import numpy_rounding as arrays
        from numc.numerics.float_arrays import exponents, power

        largest = arrays.largest_magnitudes(values)
        is_nan = ~np.isfinite(largest)
        exponent = np.maximum(exponents(largest), -2 * SCALE_BIAS)
        if self.rule == "nearest":
            exponent += largest >= (2 - 2.0**-self.precision) * power(exponent)
        scale = exponent - self.emax
        if self.rule == "ceil":
            scale += largest > float(self.largest) * power(scale)
        scale = np.maximum(scale, -SCALE_BIAS)
        scaled = arrays.scaled_down(values, scale, is_nan)
        return self._elements(scaled, to_integer), arrays.scales(scale, is_nan)

    def _elements(self, scaled: F64Array, to_integer: ToInteger) -> F64Array:
        import numpy as np

        from numc.numerics import numpy_rounding as arrays
        from numc.numerics.float_arrays import exponents, power

        if not self.exponent_bits:
            step = 2.0**-self.significand_bits
            integers = arrays.rounded(scaled / step, to_integer, float(self.largest) / step)
            unsigned_zeros: F64Array = integers * step + 0.0
            return unsigned_zeros
        own = np.maximum(exponents(np.abs(scaled)), self.emin)
        steps = power(own - self.significand_bits)
        elements = arrays.rounded(scaled / steps, to_integer, np.inf) * steps
        largest = float(self.largest)
        clipped: F64Array = np.clip(elements, -largest, largest)
        return clipped

    def to_bits(self, elements: F64Array, scales: F64Array, shared: float) -> Bits:
        """The code of the scale, then those of the elements."""
        import numpy as np

        from numc.numerics.codes import bits_of_codes, encode_finite
        from numc.numerics.float_arrays import exponents

        is_nan = np.isnan(scales[:, 0])
        code = np.where(is_nan, _NAN, exponents(np.where(is_nan, 1.0, scales[:, 0])) + SCALE_BIAS)
        if self.exponent_bits:
            codes = encode_finite(elements, self.exponent_bits, self.significand_bits)
        else:
            codes = (elements * 2.0**self.significand_bits).astype(np.int64) & (1 << self.element_bits) - 1
        head = bits_of_codes(code[:, None], SCALE_BITS)
        return np.concatenate([head, bits_of_codes(codes, self.element_bits)], axis=1)

    def from_bits(self, bits: Bits, size: int, shared: float) -> tuple[F64Array, F64Array]:
        """The inverse of `to_bits`, for all codes that there are."""
        import numpy as np

        from numc.numerics.codes import codes_of_bits, decode_finite, signed_codes

        code = codes_of_bits(bits[:, :SCALE_BITS])[:, None]
        scales = np.where(code == _NAN, np.nan, np.ldexp(1.0, code - SCALE_BIAS))
        codes = codes_of_bits(bits[:, SCALE_BITS:].reshape(len(bits), size, self.element_bits))
        if not self.exponent_bits:
            return signed_codes(codes, self.element_bits) * 2.0**-self.significand_bits, scales
        elements = decode_finite(codes, self.exponent_bits, self.significand_bits)
        # Codes above the largest value, which packing never writes: of E5M2 the next power of two is its infinity.
        infinity = np.copysign(np.inf, elements)
        special = np.where(np.abs(elements) == 2.0 ** (self.emax + 1), infinity, np.nan)
        return np.where(np.abs(elements) > float(self.largest), special, elements), scales

    @property
    def encoding(self) -> tuple[str, int, int] | None:
        """The runtime reads blocks of MX."""
        return "mx", self.exponent_bits, self.significand_bits


OCP: Mapping[str, Mx] = {
    "mxfp8": Mx(4, 3, Fraction(448)),
    "mxfp8_e4m3": Mx(4, 3, Fraction(448)),
    "mxfp8_e5m2": Mx(5, 2, Fraction(57344)),
    "mxfp6": Mx(2, 3, Fraction(15, 2)),
    "mxfp6_e3m2": Mx(3, 2, Fraction(28)),
    "mxfp6_e2m3": Mx(2, 3, Fraction(15, 2)),
    "mxfp4": Mx(2, 1, Fraction(6)),
    "mxfp4_e2m1": Mx(2, 1, Fraction(6)),
    "mxint8": Mx(0, 6, Fraction(127, 64)),
}
_SIZES = {"row": ROW, "tensor": None}
_SYNTAX = "mx(element,g,rule=floor,scale=e8m0fnu)"


def _read(name: str, sizes: Sequence[str] | None) -> Mx | ScaledGroups | None:
    if _INTEGER.fullmatch(name) and sizes is not None:
        return _read("mx", _of_integers(name, sizes))
    if name != "mx" or sizes is None:
        return None
    places, options = [], {}
    for size in sizes:
        key, _, value = size.partition("=")
        if value and key.isidentifier():
            options[key] = value
        else:
            places.append(size)
    if len(places) == 3:  # mx(element,g,ceil)
        options.setdefault("rule", places.pop())
    known = {"scale", "rule", "tensor", "rows"}
    if len(places) != 2 or not (places[1].isdecimal() or places[1] in _SIZES) or not set(options) <= known:
        raise NumcError(
            f"format 'mx(...)': want {_SYNTAX}: a format such as e2m1fn, the size of a group, row or tensor, a rule "
            f"({', '.join(ALL_RULES)}), the format of scales, rows=n for a scale of n rows, and tensor=fp32 for a "
            "scale of the tensor, too"
        )
    element = _single(places[0], "element", ELEMENTS)
    group = _SIZES[places[1]] if places[1] in _SIZES else whole_number(places[1], "format 'mx(...)'")
    if "rows" in options and group is None:
        raise NumcError(f"format 'mx(...)': rows={quoted(options['rows'])}, the group is the tensor: leave rows out")
    rows = None if group is None else whole_number(options.get("rows", "1"), "format 'mx(...)': rows")
    scale = _single(options.get("scale", "e8m0fnu"), "scale", SCALES)
    if (tensor := options.get("tensor", "fp32")) != "fp32":
        raise NumcError(
            f"format 'mx(...)': tensor={quoted(tensor)}, the scale of a tensor is in fp32: want tensor=fp32"
        )
    rule = options.get("rule", "floor" if scale == E8M0 else "amax")
    if not element.signed:
        return ZeroPoints(element, group, scale, rule, tensor="tensor" in options, rows=rows)
    is_plain = group not in _SIZES.values() and rows == 1 and rule in RULES
    if scale == E8M0 and is_plain and isinstance(element, Record) and _is_element(element):
        assert group is not None
        sizes_of = element.exponent_bits, element.significand_bits, element.max_finite
        return Mx(*sizes_of, group=group, rule=rule, element=element.name)
    return ScaledGroups(element, group, scale, rule, tensor="tensor" in options, rows=rows)


def _of_integers(name: str, sizes: Sequence[str]) -> list[str]:
    """The sizes of ``mx(...)`` that ``int4(group=128)`` stands for: scales are fp16, as those of GPTQ and AWQ."""
    options = dict(size.partition("=")[::2] for size in sizes)
    if len(options) != len(sizes) or "group" not in options or not set(options) <= {"group", "scale", "rows"}:
        raise NumcError(f"format '{name}(...)': want {name}(group=g), and scale=F for other scales than fp16")
    options.setdefault("scale", "fp16")
    return [name, options.pop("group"), *(f"{key}={value}" for key, value in options.items())]


def _single(text: str, what: str, allowed: str) -> Format:
    """The format of single values that an element or a scale is in."""
    if match := _INTEGER.fullmatch(text):
        bits = whole_number(match[2], f"format {quoted(text)}")
        return Fixed(bits, 0, signed=False) if match[1] else Fixed(bits - 1, 0)
    name, _, sizes = text.removesuffix(")").partition("(")
    arguments = sizes.split(",") if sizes else None
    fmt = next((fmt for kind in KINDS if (fmt := kind.formats.get(text) or kind.read(name, arguments))), None)
    if fmt is None:
        raise NumcError(f"format 'mx(...)': {what} {quoted(text)}, want {allowed}")
    return fmt


def _is_element(fmt: Record) -> bool:
    """Whether elements are those of the specification, or others that are made in the same way."""
    small = fmt.bits <= MOST_BITS and fmt.exponent_bits <= MOST_EXPONENT_BITS and fmt.significand_bits > 0
    return small and fmt.is_usual and fmt.is_gradual


KIND: Kind[Mx | ScaledGroups] = Kind(
    name="mx",
    formats={**OCP, "nvfp4": NVFP4},
    read=_read,
    syntax="mx(element,g)",
    call="mx",
    example="mx(e2m1fn,16)",
)
