"""Roundings to a format with few values, whatever its kind: its definition, made a list of steps.

A rounding without random bits is a step function of the number that is rounded. A stochastic rounding looks for the
values around the number, and compares it with a point between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from numc.numerics.formats import Conversion, Format
from numc.numerics.formats.format import listed
from numc.numerics.formats.steps import steps
from numc.passes.kernels.builder import Code
from numc.passes.kernels.ssa import Value, f32_bits, f64_bits
from numc.passes.kernels.values.carrier import F32, F64, Carrier

MOST_BITS = 16
_MOST_DIRECT = 1 << 13  # places of a table that is read at once, and not searched
_MOST_SELECTED = 32  # steps that are selected from one by one; more are searched for in memory


def emit_listed(code: Code, x: Value, to: Conversion, carrier: Carrier, noise: Value | None) -> Value:
    """Append the rounding of a number of the carrier."""
    assert to.format.bits <= MOST_BITS, f"{to.format.name}: a kind of more than {MOST_BITS} bits has code of its own"
    if to.noise is not None:
        assert noise is not None
        rounded = _drawn(code, x, to.format, carrier=carrier, noise=noise, bits=to.noise.bits)
    else:
        key = _key(code, x, carrier)
        starts, values = zip(*steps(to, wide=carrier.f == "f64"), strict=True)
        if len(starts) <= _MOST_SELECTED:
            rounded = carrier.constant(code, values[0])
            for start, value in zip(starts[1:], values[1:], strict=True):
                at_least = code.compare("sge", key, code.int(start & 2 * carrier.sign - 1, carrier.i))
                rounded = code.select(at_least, carrier.constant(code, value), rounded)
        else:
            number = _place(code, key, starts, carrier.i)
            rounded = _taken(code, values, number, carrier)
    return code.select(code.compare("uno", x, x), x, rounded)


def emit_listed_code(code: Code, x: Value, fmt: Format) -> Value:
    """Append the code (i32) of a value of a format, which binary32 has; of a NaN the one that numc writes."""
    own = _from_bits(code, x, fmt) or _searched(code, x, fmt)
    # A NaN without a code gets that of a zero.
    nan = fmt.encode(math.nan if fmt.has_nan else 0.0)
    return code.select(code.compare("uno", x, x), code.int(nan), own)


def _searched(code: Code, x: Value, fmt: Format) -> Value:
    values, codes = zip(*listed(fmt), strict=True)
    number = _place(code, _key(code, x, F32), [_key_of(float(value), wide=False) for value in values], "i32")
    return code.gather(code.words(codes), number)


def _from_bits(code: Code, x: Value, fmt: Format) -> Value | None:
    """The code from a table of the highest bits of magnitudes, first of positive numbers; None if it is too long."""
    low, first, codes = _by_bits(fmt)
    if not codes:
        return None
    bits, half = code.cast("bitcast", x, "i32"), len(codes) // 2
    size = code.binary("shrui", code.binary("andi", bits, code.int(F32.sign - 1)), code.int(low))
    index = code.binary("maxsi", code.binary("subi", size, code.int(first)), code.int(0))
    index = code.binary("minsi", index, code.int(half - 1))
    sign = code.binary("andi", code.binary("shrsi", bits, code.int(31)), code.int(half))
    return code.gather(code.words(codes), code.binary("addi", index, sign))


@cache
def _by_bits(fmt: Format) -> tuple[int, int, tuple[int, ...]]:
    """The bits of a magnitude that do not tell values apart, where a table without these begins, and its codes."""
    values = [(f32_bits(abs(float(value))), value < 0, each) for value, each in listed(fmt)]
    sizes = {size for size, *_ in values if size}
    low = next(low for low in reversed(range(F32.significand_bits + 1)) if len({n >> low for n in sizes}) == len(sizes))
    first = (min(sizes) >> low) - 1  # the place of zero
    half = (max(sizes) >> low) - first + 1
    if 2 * half > _MOST_DIRECT:
        return low, first, ()
    codes = [0] * (2 * half)
    for size, is_negative, each in values:
        for negative in (is_negative, is_negative or not size):  # a zero with either sign
            codes[max((size >> low) - first, 0) + negative * half] = each
    return low, first, tuple(codes)


def emit_listed_value(code: Code, x: Value, fmt: Format) -> Value:
    """Append the binary32 number that a code (i32) stands for."""
    values = [f32_bits(fmt.decode(each)) for each in range(1 << fmt.bits)]
    return code.cast("bitcast", code.gather(code.words(values), x), "f32")


def _place(code: Code, key: Value, starts: Sequence[int], element: str) -> Value:
    """The number (i32) of the last step that does not begin above a key: bits of it from the highest down."""
    count = 1 << (len(starts) - 1).bit_length()
    padded = [*starts, *[(1 << int(element[1:]) - 1) - 1] * (count - len(starts))]
    tables = [code.words([start >> low for start in padded]) for low in range(0, int(element[1:]), 32)]
    number = code.int(0)
    for bit in reversed(range(count.bit_length() - 1)):
        higher = code.binary("addi", number, code.int(1 << bit))
        words = [code.gather(table, higher) for table in tables]
        start = words[0]
        if len(words) > 1:
            low, high = (code.cast("extui", word, element) for word in words)
            start = code.binary("ori", low, code.binary("shli", high, code.int(32, element)))
        # What is filled up with is above every key.
        number = code.select(code.compare("sle", start, key), higher, number)
    return number


def _taken(code: Code, values: Sequence[float], place: Value, carrier: Carrier) -> Value:
    """The values, which binary32 has, with these numbers."""
    taken = code.cast("bitcast", code.gather(code.words([f32_bits(value) for value in values]), place), "f32")
    return taken if carrier.f == "f32" else code.cast("extf", taken, "f64")


def _key(code: Code, x: Value, carrier: Carrier) -> Value:
    """An integer in the order of the numbers: the bits, of negative ones with all but the sign inverted."""
    i = carrier.i
    bits = code.cast("bitcast", x, i)
    signs = code.binary("shrsi", bits, code.int(int(i[1:]) - 1, i))
    return code.binary("xori", bits, code.binary("andi", signs, code.int(carrier.sign - 1, i)))


def _key_of(value: float, *, wide: bool) -> int:
    bits, sign = (f64_bits(value), F64.sign) if wide else (f32_bits(value), F32.sign)
    return bits if bits < sign else (bits ^ (sign - 1)) - 2 * sign


def _drawn(code: Code, x: Value, fmt: Format, carrier: Carrier, noise: Value, bits: int) -> Value:
    """x becomes the value above it if it reaches ``below + u' * (above - below)``, for one of 2^bits numbers u'."""
    values = sorted({value for value in map(fmt.decode, range(1 << fmt.bits)) if math.isfinite(value)})
    wide = x if carrier.f == "f64" else code.cast("extf", x, "f64")
    if len(values) <= _MOST_SELECTED:
        below = above = code.f64(values[0])
        for value, following in zip(values, [*values[1:], values[-1]], strict=True):
            reached = code.compare("oge", wide, code.f64(value))
            below = code.select(reached, code.f64(value), below)
            above = code.select(reached, code.f64(following), above)
    else:
        number = _place(code, _key(code, wide, F64), [_key_of(value, wide=True) for value in values], "i64")
        below, above = (_taken(code, each, number, F64) for each in (values, [*values[1:], values[-1]]))
        beyond = code.compare("olt", wide, code.f64(values[0]))
        above = code.select(beyond, below, above)
    scale = code.f64(2.0**bits)
    missing = code.cast("uitofp", code.binary("subi", code.int(1 << bits), noise), "f64")
    part = code.binary("mulf", missing, code.binary("subf", above, below))
    scaled = code.binary("mulf", wide, scale)
    up = code.compare("oge", scaled, code.binary("addf", code.binary("mulf", below, scale), part))
    down = code.compare("ole", scaled, code.binary("subf", code.binary("mulf", above, scale), part))
    is_negative = code.compare("olt", wide, code.f64(0.0))
    rounded = code.select(is_negative, code.select(down, below, above), code.select(up, above, below))
    # A number beyond all values has both neighbours on one side of it.
    rounded = code.select(code.compare("olt", wide, code.f64(values[0])), code.f64(values[0]), rounded)
    return rounded if carrier.f == "f64" else code.cast("truncf", rounded, "f32")
