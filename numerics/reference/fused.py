"""The datapath ``fused``: a block of products and the accumulator, aligned, cut, added and rounded once.

This is how matrix units of accelerators add (Xie et al., MMA-Sim, 2025; Khattak and Mikaitis, 2025).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from numc.numerics.exact.value import ONE, POINT, PRODUCT_POINT, Value, exact_sum
from numc.numerics.formats import Conversion
from numc.numerics.formats.rounding import rounder
from numc.numerics.operators import Fma

_Parts = tuple[Value, ...]
_BELOW = 64  # bits below 2^-PRODUCT_POINT that cut terms may have


def fused_block(op: Fma) -> Callable[[Sequence[_Parts], Sequence[_Parts], Value, int], Value]:
    """The sum of a block of products and the accumulator."""
    (to_a, to_b), to, path = op.singles, op.acc, op.datapath
    to_acc = rounder(to, PRODUCT_POINT + _BELOW)
    too_large = 1 << to.format.emax + 1 + PRODUCT_POINT + _BELOW

    def block(a: Sequence[_Parts], b: Sequence[_Parts], c: Value, noise: int) -> Value:
        pairs = [(x[0], y[0]) for x, y in zip(a, b, strict=True)]
        if not all(type(value) is int or value == 0 for pair in [*pairs, (c, c)] for value in pair):
            return to_acc(exact_sum(pairs, c), noise)  # an infinity or a NaN
        terms = [(x * y, exponent_of(x, to_a) + exponent_of(y, to_b)) for x, y in pairs if x and y]
        terms += [(c * ONE, exponent_of(c, to))] if c else []
        top = max([path["least"], *(exponent for _, exponent in terms)])
        total = sum(_cut(int(value), top - path["bits"]) for value, _ in terms)
        if abs(total) >= too_large and to.format.has_infinities and not to.saturates:
            return math.copysign(math.inf, total)
        return to_acc(total, noise) or 0

    return block


def exponent_of(x: Value, to: Conversion) -> int:
    """The exponent of a number in its format: that of all subnormals is the least one."""
    return max(abs(int(x)).bit_length() - 1 - POINT, to.format.emin, -127)


def _cut(x: int, quantum: int) -> int:
    """``x * 2^-PRODUCT_POINT`` cut to a multiple of 2^quantum toward zero, in units of 2^-(PRODUCT_POINT + _BELOW)."""
    low = quantum + PRODUCT_POINT + _BELOW
    magnitude = (abs(x) << _BELOW) >> low << low
    return -magnitude if x < 0 else magnitude
