"""Roundings to formats of few values as step functions: monotonic, with a step between one value and the next."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise

from numc.numerics.formats import Conversion
from numc.numerics.formats.format import listed
from numc.numerics.formats.rounding import round_real

_FEW = 8  # bits of a format whose steps are searched for among all numbers


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
    if to.format.bits <= _FEW:
        return [(least, at(least)), *changes(least, most, at(least), at(most))]

    def key(value: Fraction) -> int:
        code = int(struct.unpack(layout[0], struct.pack(layout[1], float(value)))[0])
        return code if code >= 0 else code ^ (sign - 1)

    def between() -> Iterator[tuple[int, float]]:
        """The step between every value and the next: in the middle or at an end, or where a search finds it."""
        for (below, _), (above, _) in pairwise(listed(to.format)):
            low, high = key(below), key(above)
            middle = key((below + above) / 2)
            for start in (middle, middle + 1, low + 1, high) if below * above > 0 else ():
                if low < start <= high and at(start - 1) == below and at(start) == above:
                    yield start, float(above)
                    break
            else:
                yield from changes(low, high, at(low), at(high))

    first, last = listed(to.format)[0][0], listed(to.format)[-1][0]
    ends = changes(least, key(first), at(least), at(key(first))), changes(key(last), most, at(key(last)), at(most))
    return [(least, at(least)), *ends[0], *between(), *ends[1]]


def _same(a: float, b: float) -> bool:
    return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
