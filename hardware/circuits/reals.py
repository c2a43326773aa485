"""Exact real numbers in circuits: decoding the codes of formats, multiplying, and rounding into codes again."""

from __future__ import annotations

from dataclasses import replace

from numc.hardware.circuits.exact_real import Real, high, low, magnitude
from numc.hardware.circuits.few_values import decode_few, encode_few
from numc.hardware.circuits.posit_codes import decode_posit, encode_posit
from numc.numerics.circuits import (
    Whole,
    any_of,
    below,
    field,
    leading_zeros,
    maximum,
    minimum,
    select,
    within,
)
from numc.numerics.formats import FORMATS, Conversion, Fixed, Format, Posit, Record


def decode(fmt: Format, code: Whole) -> Real:
    """The value of a code. Raises NumcError for a format without a pattern that has too many codes for a table."""
    if isinstance(fmt, Record) and fmt.parts > 1:
        return _joined(fmt, code)
    if isinstance(fmt, Record):
        return _record(fmt, code)
    if isinstance(fmt, Fixed):
        sign = field(code, fmt.bits - 1, 1) if fmt.signed else 0
        size = select(sign, (1 << fmt.bits) - code, code)
        return Real(sign, -fmt.fraction_bits, size, least=((1, -fmt.fraction_bits),))
    return decode_posit(fmt, code) if isinstance(fmt, Posit) else decode_few(fmt, code)


def _record(fmt: Record, code: Whole) -> Real:
    m, x = fmt.significand_bits, fmt.exponent_bits
    size = below(code, m + x)
    sign = field(code, m + x, 1) if fmt.signed else 0
    biased, fraction = field(code, m, x), below(code, m)
    normal = any_of(biased) if fmt.zero else 1
    significand = fraction | normal << m
    if fmt.zero and not fmt.subnormals:
        significand = select(normal, significand, 0)
    exponent = maximum(biased, int(fmt.zero)) - fmt.bias - m
    infinite = size == fmt.infinity_code if fmt.has_infinities else 0
    nan = (size > fmt.largest_code) & (infinite ^ 1)
    if fmt.signed and fmt.zero and not fmt.has_minus_zero:
        nan = nan | (sign & (size == 0))
    least = ((m + 1 if m else 0, low(exponent)), *(((1, fmt.unit_exponent),) if fmt.is_gradual and m else ()))
    return Real(sign, exponent, significand, nan=nan, infinite=infinite, least=least)


def _joined(fmt: Record, code: Whole) -> Real:
    """The sum of the parts of a compound number, which binary32 holds."""
    first, *others = split(fmt, code)
    tail = 25 - fmt.precision  # how far below the last bit of its first part a number can have bits
    low_zeros = fmt.precision - 1  # that the last bit of a part can be followed by, as it has all its bits
    total = first.significand << tail + low_zeros
    for part in others:
        most = tail + low_zeros
        up = minimum(maximum(part.exponent - first.exponent + most, 0), most)
        size = part.significand << up
        total = total + select(part.sign ^ first.sign, -size, size)
    size = maximum(total, 0) >> low_zeros  # a first part is the largest one
    significand = select(first.significand == 0, 0, below(size, fmt.precision + tail))
    least = ((24, low(first.exponent) - tail), (tail + 1, low(first.exponent) - tail))
    return replace(first, exponent=first.exponent - tail, significand=significand, least=least)


def split(fmt: Record, code: Whole) -> list[Real]:
    """The parts of a compound number, or the number."""
    return [decode(fmt.part, field(code, n * fmt.part.bits, fmt.part.bits)) for n in range(fmt.parts)]


def multiply(x: Real, y: Real) -> Real:
    """The exact product."""
    nan = x.nan | y.nan | (x.infinite & y.is_zero) | (y.infinite & x.is_zero)
    least = tuple(sorted({(_bits(m, n), e + f) for m, e in x.least for n, f in y.least}, reverse=True))
    return Real(
        x.sign ^ y.sign,
        x.exponent + y.exponent,
        x.significand * y.significand,
        nan=nan,
        infinite=(x.infinite | y.infinite) & (nan ^ 1),
        least=least,
    )


def _bits(m: int, n: int) -> int:
    """The bits that a product has at least; 0: it can have one bit at any exponent (`Real.least`)."""
    both = max(m, 1) + max(n, 1) - 1
    return 0 if both == 1 and 0 in (m, n) else both


def flushed(x: Real, fmt: Format) -> Real:
    """`x` with a zero of its sign in the place of a number that is subnormal in a format, from which it was decoded."""
    assert isinstance(fmt, Record)
    normal = x.significand >= 1 << fmt.significand_bits
    return replace(
        x, significand=select(normal, x.significand, 0), exponent=select(normal, x.exponent, low(x.exponent))
    )


# Rounding.


def encode(x: Real, to: Conversion, noise: Whole = 0) -> Whole:
    """The code of a number that is rounded once; `noise`: the random bits of a stochastic rounding.

    Raises NumcError for a format without a pattern that has many codes, or to which is rounded stochastically.
    """
    fmt = to.format
    if isinstance(fmt, Record) and fmt.parts > 1:
        return _encode_parts(x, to, noise)
    if isinstance(fmt, Fixed):
        return _encode_fixed(x, to, fmt, noise)
    if isinstance(fmt, Posit):
        return encode_posit(x, to, fmt, noise)
    if not isinstance(fmt, Record) or not fmt.signed or not fmt.zero:
        return encode_few(x, to)
    m = fmt.significand_bits
    units, exponent, up, tiny = _rounded(x, to, fmt.precision, fmt.emin, noise, by_code=fmt.even_codes and not m)
    size = (exponent - fmt.emin << m) + units + up
    beyond: Whole = size > fmt.largest_code
    if not fmt.subnormals:
        size, beyond = select(tiny, 0, size), beyond & (tiny ^ 1)
    size = minimum(size, fmt.largest_code)
    sign_bit = 1 << fmt.magnitude_bits
    signed = x.sign if fmt.has_minus_zero else x.sign & any_of(size)
    finite = size + signed * sign_bit
    largest = fmt.largest_code + x.sign * sign_bit
    infinity = largest if fmt.finite else fmt.infinity_code + x.sign * sign_bit
    of_infinity, overflow = _out_of_range(to, x.sign, largest, infinity)
    result = select(beyond, overflow, finite)
    result = select(x.infinite, of_infinity, result)
    return select(x.nan, _nan_code(fmt), result) if high(x.nan) else result


def _out_of_range(to: Conversion, sign: Whole, largest: Whole, infinity: Whole) -> tuple[Whole, Whole]:
    """The codes that become of an infinity and of what is beyond the largest value."""
    if to.overflow == "nan":
        return (_nan_code(to.format),) * 2
    if to.saturates:
        return largest, largest
    how = to.rounding
    if how in ("rup", "rdn"):
        return infinity, select(sign ^ (how == "rdn"), largest, infinity)
    return infinity, largest if how in ("rtz", "odd") else infinity


def _nan_code(fmt: Format) -> int:
    return fmt.code_of_nan() if fmt.has_nan else 0


def _rounded(
    x: Real, to: Conversion, precision: int, emin: int, noise: Whole, *, by_code: bool = False
) -> tuple[Whole, Whole, Whole, Whole]:
    """The units of the last place below a magnitude, its exponent, whether it is rounded up, and whether it is tiny."""
    random = to.how.random_bits
    width = max(x.bits, precision + max(random, 2))
    zeros = leading_zeros(x.significand, x.bits)
    top = select(x.significand == 0, emin, x.exponent + (x.bits - 1) - zeros)
    normalised = within(x.significand << zeros, 0, (1 << x.bits) - 1) << width - x.bits
    tiny = top < emin
    down = minimum(maximum(emin - top, 0), precision + max(random, 1) + 1)
    shifted, lost = normalised >> down, any_of(below(normalised, down))
    drop = width - precision
    units, exponent = shifted >> drop, maximum(top, emin)
    code = exponent - emin + units if by_code else units
    if random:
        return units, exponent, (field(shifted, drop - random, random) + noise) >> random, tiny
    half = field(shifted, drop - 1, 1)
    rest = any_of(below(shifted, drop - 1)) | lost
    odd = below(code, 1)
    up: Whole = {
        "rne": half & (rest | odd),
        "rna": half,
        "rtz": 0,
        "odd": (half | rest) & (odd ^ 1),
        "rup": (half | rest) & (x.sign ^ 1),
        "rdn": (half | rest) & x.sign,
    }[to.rounding]
    return units, exponent, up, tiny


def _encode_fixed(x: Real, to: Conversion, fmt: Fixed, noise: Whole) -> Whole:
    """Multiples of one unit: what would be subnormal numbers of a record; a NaN has no code."""
    units, exponent, up, _ = _rounded(x, to, fmt.precision, fmt.integer_bits - 1, noise)
    beyond = (exponent > fmt.integer_bits - 1) | x.infinite
    most = (1 << fmt.precision) - 1
    size = units + up
    positive = select(beyond, most, minimum(size, most))
    if not fmt.signed:
        return select(x.sign, 0, positive)
    negative = select(beyond, most + 1, minimum(size, most + 1))
    return select(x.sign & any_of(negative), (1 << fmt.bits) - negative, positive)


def _encode_parts(x: Real, to: Conversion, noise: Whole) -> Whole:
    """The codes of the parts of a binary32 number, each the rounding of what the ones before it leave."""
    bf16, count = FORMATS["bf16"], to.format.parts
    plain, last = Conversion(bf16), Conversion(bf16, to.rounding)
    rest, sign = x.significand, x.sign
    codes, sizes, ulps = [], [], []
    for n in range(count):
        part = replace(x, sign=sign, significand=rest)
        code = encode(part, last if n == count - 1 else plain, noise if n == count - 1 else 0)
        value = decode(bf16, code)
        up = minimum(maximum(value.exponent - x.exponent + bf16.precision - 1, 0), x.bits)
        size = within(value.significand << up >> bf16.precision - 1, 0, 2 * high(x.significand) + 1)
        left = rest - size
        codes.append(code)
        sizes.append(size)
        ulps.append(1 << up >> bf16.precision - 1)
        sign, rest = select(left < 0, sign ^ 1, sign), within(magnitude(left), 0, high(x.significand))
    special = decode(bf16, codes[0]).special
    for n in reversed(range(count - 1)):
        ended = (sizes[n + 1] != 0) & (1 if n == count - 2 else sizes[n + 2] == 0)
        _to_even(codes, sizes, n, ulps[n], ended)
    joined: Whole = 0
    for n, code in enumerate(codes):
        code = select(special, codes[0], select(sizes[n] == 0, 0, code)) if n else code
        joined = joined | code << n * bf16.bits
    return joined


def _to_even(codes: list[Whole], sizes: list[Whole], n: int, ulp: Whole, ended: Whole) -> None:
    """Make the parts n and n + 1, behind which there are only zeros, those of their sum.

    The rounding of the second one can make it half a unit of the first one, a tie that goes to even, or a whole one.
    """
    first, second = codes[n], codes[n + 1]
    empty = (sizes[n] == 0) & ended if n else 0
    whole = (sizes[n + 1] == ulp) & ended
    moves = whole | ((sizes[n + 1] * 2 == ulp) & below(first, 1) & ended)
    away = field(first, 15, 1) == field(second, 15, 1)
    moved = select(moves, below(first + select(away, 1, -1), 16), first)
    codes[n] = select(empty, second, moved)
    codes[n + 1] = select(empty | whole, 0, second ^ (moves << 15))
    size = sizes[n] + select(moves, select(away, ulp, -ulp), 0)
    sizes[n], sizes[n + 1] = select(empty, sizes[n + 1], size), select(empty | whole, 0, sizes[n + 1])
