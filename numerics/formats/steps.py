"""Roundings to formats of few values as step functions: monotonic, with a step between one value and the next."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import cache

from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import round_real


@cache
def steps(to: Conversion, *, wide: bool = False) -> list[tuple[int, float]]:
    """Return the results in ascending order of the numbers, each with the key where it begins.

    The definition is asked where the steps are. A key is an integer in the order of the numbers: the bits of a binary32
    number (`wide`: binary64), of negative ones with all but the sign inverted.
    """
    layout = ("<q", "<d") if wide else ("<i", "<f")
    bits, significand = (64, 52) if wide else (32, 23)
    sign, infinity = 1 << bits - 1, ((1 << bits - 1 - significand) - 1) << significand

    def at(key: int) -> float:
        code = key if key >= 0 else key ^ (sign - 1)
        return round_real(float(struct.unpack(layout[1], struct.pack(layout[0], code))[0]), to)

    def changes(low: int, high: int, of_low: float, of_high: float) -> Iterator[tuple[int, float]]:
        if _same(of_low, of_high):
            return
        if high == low + 1:
            yield high, of_high
            return
        middle = (low + high) // 2
        of_middle = at(middle)
        yield from changes(low, middle, of_low, of_middle)
        yield from changes(middle, high, of_middle, of_high)

    least, most = -infinity - 1, infinity
    return [(least, at(least)), *changes(least, most, at(least), at(most))]


def _same(a: float, b: float) -> bool:
    return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
