"""Binary records: a sign, an exponent and a significand in a code, as IEEE-754 encodes, and its variations."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from numc.numerics.exact.multiples import chosen_multiple
from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats.format import Finite, Format, check_code, check_range, floor_log2, power
from numc.numerics.formats.kind import Kind
from numc.numerics.roundings import Rounding
from numc.support.arguments import whole_number
from numc.support.errors import NumcError, quoted, shortened

if TYPE_CHECKING:
    from numc.numerics.codes import Codes
    from numc.numerics.float_arrays import F32Array

USUAL_BIAS = -1 << 30
"""Stands for the bias of IEEE-754, 2^(exponent_bits - 1) - 1."""
NANS = ("ieee", "ones", "zero", "none")
_MOST_PARTS = 3
_BINARY32_PRECISION = 24
_LEAST_EMIN = -127  # of the code that rounds: below 2^-126 the numbers of binary32 have one distance


@dataclass(frozen=True)
class Record(Format):
    """`exponent_bits` and `significand_bits` explicit bits behind a sign, if there is one.

    subnormals: False means that values below ``2 ** emin`` become zero (``eXmYn``).
    finite: no infinities; what is beyond the largest value becomes that value.
    parts: more than 1 means the unevaluated sum of that many numbers of the format (``bf16x2``, ``tf32x3``).
    bias: what the exponent field has above the exponent.
    nan: the codes of NaN. "ieee" are those above the infinity, "ones" is the all-ones code of either sign, "zero" that
    of -0, which is then no value, "none" is for formats without a NaN; "" is ieee, or ones without infinities.
    zero: False means that there is none: the lowest exponent is one as all others are.
    even_codes: without significand bits a tie goes to the even code; otherwise to the larger magnitude.
    largest_code: of a finite value without its sign, -1 is the largest there can be; codes above it are infinities and
    NaN.
    Two formats are equal when their values are, whatever they are called. Raises NumcError for sizes out of range.
    """

    name: str = field(compare=False)
    exponent_bits: int
    significand_bits: int
    subnormals: bool = True
    finite: bool = False
    parts: int = 1
    signed: bool = True
    bias: int = USUAL_BIAS
    nan: str = ""
    zero: bool = True
    even_codes: bool = False
    largest_code: int = -1

    def __post_init__(self) -> None:
        is_usual = self.bias == USUAL_BIAS
        if is_usual:
            _check_usual(self)
            object.__setattr__(self, "bias", _usual_bias(self.exponent_bits))
        if not self.nan:
            object.__setattr__(self, "nan", "ones" if self.finite else "ieee")
        _check(self)
        if self.largest_code == -1:
            object.__setattr__(self, "largest_code", self._last)
        if not 0 < self.largest_code <= self._last:
            raise NumcError(f"format '{self.name}': largest code {self.largest_code}, want 1 to {self._last}")
        check_range(self)
        if self.emin < _LEAST_EMIN or (self.emin < -126 and not self.subnormals and self.zero):
            raise NumcError(f"format '{self.name}': the smallest normal value is 2^{self.emin}, want 2^-127 and more")
        if self.parts != 1:
            _check_parts(self)

    # Sizes.

    @property
    def bits(self) -> int:
        """Storage width, all parts together."""
        return self.parts * (self.signed + self.magnitude_bits)

    @cached_property
    def part(self) -> Record:
        """The format of one part of a value; where values have one part, the format."""
        return replace(self, name=self.name.rpartition("x")[0], parts=1) if self.parts > 1 else self

    @property
    def fields(self) -> tuple[tuple[str, int], ...]:
        """Sign, exponent and significand, of each part."""
        each = (("sign", int(self.signed)), ("exponent", self.exponent_bits), ("significand", self.significand_bits))
        return self.parts * tuple((name, bits) for name, bits in each if bits)

    @property
    def magnitude_bits(self) -> int:
        """Of a code without its sign."""
        return self.exponent_bits + self.significand_bits

    @property
    def precision(self) -> int:
        """Significant bits, the hidden one included (of one part)."""
        return self.significand_bits + 1

    @property
    def is_usual(self) -> bool:
        """Whether IEEE-754 gives the sign, the bias and the zeros; the code of NaN and the largest value may differ."""
        return (
            self.signed
            and self.exponent_bits > 1
            and self.bias == _usual_bias(self.exponent_bits)
            and self.nan != "zero"
            and self.zero
            and not self.even_codes
            and self.largest_code == self._last
            and (self.finite or self.nan == "ieee")
        )

    @property
    def _all_ones(self) -> int:
        return (1 << self.magnitude_bits) - 1

    @property
    def is_full_range(self) -> bool:
        """Whether it is usual, and has the exponents of binary32."""
        return self.is_usual and self.exponent_bits == 8

    @property
    def is_gradual(self) -> bool:
        """Whether there are subnormals."""
        return self.subnormals and self.zero

    @property
    def _last(self) -> int:
        """The largest code of a magnitude that can be finite."""
        return (self._all_ones - (self.nan == "ones")) if self.finite else self.infinity_code - 1

    @property
    def infinity_code(self) -> int:
        """The code of the infinity, where there is one."""
        if self.nan == "ieee":
            return ((1 << self.exponent_bits) - 1) << self.significand_bits
        return self._all_ones - (self.nan == "ones")

    # Open widths.

    def resized(self, exponent: int, significand: int) -> Record:
        """The format of that many bits, otherwise as this one, of those that eXmY, eXmYn and eXmYfn write."""
        return exmy(exponent, significand, subnormals=self.subnormals, finite=self.finite)

    def sized_name(self, exponent: str, significand: str) -> str:
        """The text of such formats, whose widths may be ranges."""
        return _sized_name(exponent, significand, self.subnormals, self.finite)

    # Values.

    @property
    def emin(self) -> int:
        """The exponent of the smallest normal value."""
        return self.zero - self.bias

    @property
    def unit_exponent(self) -> int:
        """The exponent of two that every value is a multiple of."""
        return self.emin - self.significand_bits

    @property
    def least(self) -> Fraction:
        """The smallest value, of those with a sign the most negative one."""
        return -self.max_finite if self.signed else Fraction(0) if self.zero else self.min_subnormal

    @property
    def max_finite(self) -> Fraction:
        """The largest finite value; of a compound format, the largest sum of parts a rounding can give."""
        if self.parts > 1:  # half an ulp above the largest part is a tie that the first part rounds to infinity
            return power(self.emax) * (2 - power(-self.precision))
        return self._magnitude(self.largest_code)

    @property
    def emax(self) -> int:
        """The exponent of the largest finite value."""
        return floor_log2(self._magnitude(self.largest_code))

    @property
    def min_normal(self) -> Fraction:
        """The smallest positive normal value."""
        return power(self.emin)

    @property
    def min_subnormal(self) -> Fraction:
        """The smallest positive value; equal to `min_normal` where there are no subnormals."""
        return power(self.unit_exponent) if self.is_gradual else self.min_normal

    @property
    def has_zero(self) -> bool:
        """Whether zero is a value."""
        return self.zero

    @property
    def has_minus_zero(self) -> bool:
        """Whether the code of -0 is that of a zero."""
        return self.signed and self.zero and self.nan != "zero"

    @property
    def has_infinities(self) -> bool:
        """Whether there are infinities."""
        return not self.finite

    @property
    def has_nan(self) -> bool:
        """Whether a NaN has a code."""
        return self.significand_bits > 0 if self.nan == "ieee" else self.nan != "none"

    @property
    def can_overflow_to_nan(self) -> bool:
        """Where there is a NaN and no infinity."""
        return self.finite and self.has_nan

    @property
    def can_saturate(self) -> bool:
        """Where there are infinities."""
        return not self.finite and self.parts == 1

    def _magnitude(self, code: int) -> Fraction:
        biased, fraction = code >> self.significand_bits, code & (1 << self.significand_bits) - 1
        if self.zero and not biased:
            return fraction * power(self.unit_exponent) * self.subnormals
        return ((1 << self.significand_bits) + fraction) * power(biased - self.bias - self.significand_bits)

    # Codes.

    def decode(self, code: int) -> float:
        """Return the value of an encoding; a float holds every one exactly. Raises ValueError outside the codes."""
        self._one_part()
        check_code(self, code)
        magnitude, negative = code & self._all_ones, bool(code >> self.magnitude_bits)
        if magnitude > self.largest_code:
            is_infinity = not self.finite and magnitude == self.infinity_code
            return (-math.inf if negative else math.inf) if is_infinity else math.nan
        if negative and not magnitude and not self.has_minus_zero and self.zero:
            return math.nan
        return math.copysign(float(self._magnitude(magnitude)), -1.0 if negative else 1.0)

    def encode(self, value: float | Fraction) -> int:
        """Return the encoding of a value of this format (NaN: the quiet one, all significand bits but the first clear).

        Raises ValueError when the format does not have the value: encoding does not round.
        """
        self._one_part()
        negative = math.copysign(1.0, value) < 0 if isinstance(value, float) else value < 0
        sign = int(negative) << self.magnitude_bits
        if isinstance(value, float) and not math.isfinite(value):
            if math.isnan(value) and self.has_nan:
                return self._nan_code
            if math.isinf(value) and not self.finite and not (negative and not self.signed):
                return sign | self.infinity_code
            raise ValueError(f"'{self.name}' has no {value}")
        magnitude = abs(Fraction(value))
        is_zero = not magnitude and self.zero
        if is_zero and (not negative or self.has_minus_zero):
            return sign
        exponent = max(floor_log2(magnitude), self.emin) if magnitude else self.emin
        units = magnitude / power(exponent - self.significand_bits)
        is_normal = magnitude >= self.min_normal
        small = is_normal or self.is_gradual
        if units.denominator != 1 or not small or is_zero or (negative and not self.signed):
            raise ValueError(f"{value} is not a value of '{self.name}'")
        code = (exponent - self.emin << self.significand_bits) + int(units) - (not self.zero) * (self._hidden)
        if code > self.largest_code:
            raise ValueError(f"{value} is not a value of '{self.name}'")
        return sign | code

    @property
    def _hidden(self) -> int:
        return 1 << self.significand_bits

    @property
    def _nan_code(self) -> int:
        if self.nan == "ieee":
            return self.infinity_code | self._hidden >> 1
        return self._all_ones if self.nan == "ones" else 1 << self.magnitude_bits

    def _one_part(self) -> None:
        if self.parts > 1:
            raise ValueError(f"'{self.name}' has no encoding of its own: encode its parts")

    def encode_array(self, x: F32Array) -> Codes:
        """Return the codes of values of the format, or of one part of them."""
        import numpy as np

        from numc.numerics.float_arrays import exponents

        finite = np.isfinite(x)
        magnitude = np.abs(np.where(finite, x, np.float32(0)).astype(np.float64))
        exponent = np.maximum(exponents(magnitude), self.emin)
        units = np.ldexp(magnitude, self.significand_bits - exponent).astype(np.int64)
        codes: Codes = (exponent - self.emin << self.significand_bits) + units - (not self.zero) * self._hidden
        sign = np.signbit(x).astype(np.int64) << self.magnitude_bits if self.signed else np.int64(0)
        codes = codes | sign
        if finite.all():
            return codes
        if np.isnan(x).any() and not self.has_nan:
            raise NumcError(
                f"x has a NaN, which '{self.name}' has no encoding for: use a format with significand bits"
                if self.nan == "ieee"
                else f"x has a NaN, which '{self.name}' has no encoding for: use a format with a NaN, such as e4m3fn"
            )
        nan = np.int64(self._nan_code if self.has_nan else 0)
        return np.select([np.isnan(x), ~finite], [nan, self.infinity_code | sign], codes)

    def decode_array(self, codes: Codes) -> F32Array:
        """Return the values of codes, or of parts of them."""
        import numpy as np

        magnitude = codes & self._all_ones
        biased = magnitude >> self.significand_bits
        least = int(self.zero)
        units = (magnitude & self._hidden - 1) + (np.minimum(biased, 1) if self.zero else 1) * self._hidden
        values = np.ldexp(units.astype(np.float64), np.maximum(biased, least) - self.bias - self.significand_bits)
        if not self.subnormals and self.zero:
            values[biased == 0] = 0.0
        if not self.finite:
            values[magnitude == self.infinity_code] = np.inf
        is_nan = magnitude > self.largest_code
        if not self.finite:
            is_nan &= magnitude != self.infinity_code
        signs = codes >> self.magnitude_bits
        if not self.has_minus_zero and self.zero:
            is_nan |= (signs != 0) & (magnitude == 0)
        values = np.copysign(values, np.where(signs, -1.0, 1.0))
        values[is_nan] = np.nan
        floats: F32Array = values.astype(np.float32)
        return floats

    # Rounding.

    def check_noise(self, bits: int) -> None:
        """Any number of them: values between two powers of two have one distance."""

    def rounding(self, how: Rounding, point: int) -> Finite:
        """Return the rounding of one part; with a sign, or as if there were one."""
        normal, significand_bits = self.emin + point, self.significand_bits
        flush = not self.subnormals and self.zero
        largest, least = (int(v * (1 << point)) for v in (self.max_finite, self.min_subnormal))
        drop, signed, by_code = point - POINT, self.signed, self.even_codes and not significand_bits
        parity = self.bias - point  # of a code without significand bits, from the place of its bit
        minus_zero = -0.0 if self.has_minus_zero else 0

        def finite(x: int, noise: int) -> Value:
            negative = x < 0
            magnitude = -x if negative else x
            exponent = magnitude.bit_length() - 1
            even_is_odd = False
            if exponent < normal:
                if flush:
                    return minus_zero if negative else 0
                exponent = normal
            elif by_code:  # there is one unit, whose code may be even
                even_is_odd = not (exponent + parity) & 1
            # The neighbours of x are multiples of 2^shift. The exponent is not bounded above: overflow is seen later.
            magnitude = chosen_multiple(
                magnitude, exponent - significand_bits, how, negative=negative, noise=noise, even_is_odd=even_is_odd
            )
            if not self.zero:
                magnitude = max(magnitude, least)
            if magnitude > largest or (negative and not signed and magnitude):
                return self.beyond(how, negative)
            magnitude >>= drop
            return magnitude if not negative else -magnitude or minus_zero

        return finite

    def special(self, x: Value, how: Rounding, noise: int) -> Value:
        """A zero that is no value is out of range; an infinity stays where there is one and nothing saturates."""
        if x != x:
            return math.nan
        if x == 0:
            return self.beyond(how, True) if not self.zero else x if self.has_minus_zero else 0
        if self.finite or how.saturates or (x < 0 and not self.signed):
            return self.beyond(how, x < 0)
        return x

    def beyond(self, how: Rounding, negative: bool) -> Value:
        """As IEEE-754 section 7.4 says where there are infinities, or saturated, or NaN by request."""
        if how.overflow == "nan":
            return math.nan
        if how.saturates:
            return int((self.least if negative else self.max_finite) * (1 << POINT))
        if negative and not self.signed:
            return math.nan
        to_infinity = how.name in ("rne", "rna") or how.random_bits or how.name == ("rdn" if negative else "rup")
        largest = math.inf if to_infinity else int(self.max_finite * (1 << POINT))
        return -largest if negative else largest


def _usual_bias(exponent_bits: int) -> int:
    return (1 << exponent_bits - 1) - 1 if exponent_bits else 0


def _check_usual(fmt: Record) -> None:
    # An 8-bit exponent without infinities would reach 2^128, which the binary32 carrier cannot hold.
    top = 7 if fmt.finite else 8
    least = 2 - (fmt.subnormals and fmt.significand_bits > 0)
    if not least <= fmt.exponent_bits <= top:
        raise NumcError(
            f"format '{fmt.name}': {fmt.exponent_bits} exponent bits, want {least} to {top}"
            + (" where there are no infinities" if fmt.finite else "")
        )


def _check(fmt: Record) -> None:
    if not 0 <= fmt.exponent_bits <= 9:
        raise NumcError(f"format '{fmt.name}': {fmt.exponent_bits} exponent bits, want 0 to 9")
    if not 0 <= fmt.significand_bits <= 23:
        raise NumcError(f"format '{fmt.name}': {fmt.significand_bits} significand bits, want 0 to 23")
    if fmt.nan not in NANS:
        raise NumcError(f"format '{fmt.name}': nan={shortened(fmt.nan)}, want {', '.join(NANS)}")
    if fmt.magnitude_bits < 1 or (
        fmt.nan == "ieee" and fmt.exponent_bits < 2 - (fmt.subnormals and fmt.significand_bits > 0)
    ):
        raise NumcError(f"format '{fmt.name}': {fmt.exponent_bits} exponent bits, which leave no finite number but 0")
    if fmt.nan == "ieee" and fmt.finite:
        raise NumcError(f"format '{fmt.name}': nan=ieee are the codes above the infinity, which there is none of")
    if fmt.nan == "zero" and not (fmt.signed and fmt.zero):
        raise NumcError(f"format '{fmt.name}': nan=zero is the code of -0, which needs a sign and a zero")


def _check_parts(fmt: Record) -> None:
    """Sums of parts are binary32 numbers if each part has a sign, subnormals and infinities."""
    if not (fmt.is_usual and fmt.is_gradual and fmt.significand_bits) or fmt.finite:
        raise NumcError(f"format '{fmt.name}': parts have a sign, subnormals and infinities, want parts in eXmY")
    most = min(_MOST_PARTS, -(-_BINARY32_PRECISION // fmt.precision))
    if not 1 <= fmt.parts <= most:
        wanted = "1" if most == 1 else f"1 to {most}"
        raise NumcError(f"format '{fmt.name}': {fmt.parts} parts, want {wanted} of {fmt.precision} significant bits")


# The accepted names. Record.name is the text the format is printed with: the same for every name of one set of values.
RECORDS: Mapping[str, Record] = MappingProxyType(
    {
        "fp32": Record("fp32", 8, 23),
        "tf32": Record("tf32", 8, 10),
        "bf16": Record("bf16", 8, 7),
        "bf16x2": Record("bf16x2", 8, 7, parts=2),
        "bf16x3": Record("bf16x3", 8, 7, parts=3),
        "fp16": Record("fp16", 5, 10),
        "fp8_e5m2": Record("e5m2", 5, 2),
        "fp8_e4m3": Record("e4m3fn", 4, 3, finite=True),
        "fp6_e3m2": Record("e3m2fn", 3, 2, finite=True, nan="none"),
        "fp6_e2m3": Record("e2m3fn", 2, 3, finite=True, nan="none"),
        "fp4_e2m1": Record("e2m1fn", 2, 1, finite=True, nan="none"),
        "e5m2fnuz": Record("e5m2fnuz", 5, 2, finite=True, bias=16, nan="zero"),
        "e4m3fnuz": Record("e4m3fnuz", 4, 3, finite=True, bias=8, nan="zero"),
        "e4m3b11fnuz": Record("e4m3b11fnuz", 4, 3, finite=True, bias=11, nan="zero"),
        "e8m0fnu": Record("e8m0fnu", 8, 0, finite=True, signed=False, bias=127, zero=False),
        "hfp8_fwd": Record("e4m3", 4, 3),
        "hfp8_bwd": Record("e5m2", 5, 2),
        "dlfloat16": Record("e6m9n", 6, 9, subnormals=False),
    }
)


def exmy(exponent: int, significand: int, *, subnormals: bool = True, finite: bool = False) -> Record:
    """Return the format with these widths, by its shortest name. Raises NumcError for widths that do not exist."""
    name = _sized_name(str(exponent), str(significand), subnormals, finite)
    named = next((known for known in RECORDS.values() if known.name == name), None)
    return named or _known(Record(name, exponent, significand, subnormals, finite))


def _known(fmt: Record) -> Record:
    return next((known for known in RECORDS.values() if known == fmt), fmt)


def _sized_name(exponent: str, significand: str, subnormals: bool, finite: bool) -> str:
    return f"e{exponent}m{significand}{'fn' if finite else '' if subnormals else 'n'}"


def p3109(bits: int, precision: int, signed: bool = True, finite: bool = False) -> Record:
    """Return a format of IEEE P3109, binaryKpP. Raises NumcError for sizes that do not exist, or not in binary32."""
    name = f"binary{bits}p{precision}{'s' if signed else 'u'}{'f' if finite else 'e'}"
    most = bits - signed
    if not 3 <= bits <= 32 or not 1 <= precision <= most:
        raise NumcError(f"format '{name}': want 3 to 32 bits, of which 1 to {most} are its precision")
    exponent_bits = most - precision + 1
    bias = 1 << bits - precision - signed if bits - precision - signed >= 0 else 0
    return Record(
        name,
        exponent_bits,
        precision - 1,
        finite=finite,
        signed=signed,
        bias=bias,
        nan="zero" if signed else "ones",
        even_codes=True,
    )


_EXMY = re.compile(r"e(\d+)m(\d+)(?:b(\d+))?(n|fn|fnuz|fnu)?", re.ASCII)
_PARTS = re.compile(r"([a-wyz0-9_]+)x(\d+)", re.ASCII)
_P3109 = re.compile(r"binary(\d+)p(\d+)([su]?)([ef]?)", re.ASCII)
_SWITCHES = {"signed": "signed", "subnormals": "subnormals", "zero": "zero", "even": "even_codes"}
_SYNTAX = "float(X,Y,bias=B,signed=0,subnormals=0,zero=0,infinities=0,nan=ones|zero|none,even=1,largest=CODE)"


def _read(name: str, sizes: Sequence[str] | None) -> Record | None:
    what = f"format {quoted(name)}"
    if name == "float" and sizes is not None:
        return _called(sizes)
    if sizes is not None:
        return None
    if match := _P3109.fullmatch(name):
        return p3109(whole_number(match[1], what), whole_number(match[2], what), match[3] != "u", match[4] == "f")
    if (match := _PARTS.fullmatch(name)) and (part := RECORDS.get(match[1]) or _read(match[1], None)):
        count = whole_number(match[2], what)
        return part if count == 1 else _known(replace(part, name=f"{part.name}x{count}", parts=count))
    match = _EXMY.fullmatch(name)
    if match is None:
        return None
    x, y = whole_number(match[1], what), whole_number(match[2], what)
    bias, suffix = match[3], match[4] or ""
    if bias is None and suffix in ("", "n", "fn"):
        return exmy(x, y, subnormals=suffix != "n", finite=suffix == "fn")
    if suffix == "fnu" and (y or x > 8):
        raise NumcError(f"{what}: a format without a sign and a zero has powers of two, want e8m0fnu or float(...)")
    _check_sizes(name, x, y)
    usual = 1 << x - 1 if suffix == "fnuz" else _usual_bias(x)
    return _known(
        Record(
            name,
            x,
            y,
            subnormals=suffix != "n",
            finite=suffix.startswith("fn"),
            signed=suffix != "fnu",
            bias=usual if bias is None else whole_number(bias, what),
            nan="zero" if suffix == "fnuz" else "",
            zero=suffix != "fnu",
        )
    )


def _check_sizes(name: str, exponent: int, significand: int) -> None:
    if not (1 <= exponent <= 8 and significand <= 23):
        raise NumcError(f"format {quoted(name)}: want 1 to 8 exponent bits and 0 to 23 significand bits")


def _called(sizes: Sequence[str]) -> Record:
    pairs = [size.partition("=") for size in sizes]
    numbers = [key for key, equals, _ in pairs if not equals]
    settings = {key: value for key, equals, value in pairs if equals}
    unknown = settings.keys() - {*_SWITCHES, "bias", "infinities", "nan", "largest"}
    if len(numbers) != 2 or unknown or len(numbers) + len(settings) != len(sizes):
        raise NumcError(f"format 'float(...)': want {_SYNTAX}, what is not written is as in IEEE-754")
    x, y = (whole_number(size, "format 'float(...)'") for size in numbers)
    bits = {key: whole_number(settings[key], f"format 'float(...)': {key}") for key in settings.keys() - {"nan"}}
    if any(bits.get(key, 0) not in (0, 1) for key in (*_SWITCHES, "infinities")):
        raise NumcError(f"format 'float(...)': {', '.join(_SWITCHES)} and infinities are 0 or 1")
    options: dict[str, bool] = {field: bool(bits[key]) for key, field in _SWITCHES.items() if key in bits}
    return _known(
        Record(
            f"float({','.join([*numbers, *(f'{key}={value}' for key, value in settings.items())])})",
            x,
            y,
            finite=not bits.get("infinities", 1),
            bias=bits.get("bias", _usual_bias(min(x, 9))),
            nan=settings.get("nan", ""),
            largest_code=bits.get("largest", -1),
            **options,
        )
    )


KIND: Kind[Record] = Kind(
    name="binary records",
    formats=RECORDS,
    read=_read,
    syntax="eXmY, eXmYn, eXmYfn, eXmYbBfnuz, binaryKpP, float(X,Y,...)",
    call="float",
    example="float(4,3,bias=11)",
)
