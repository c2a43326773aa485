"""The unit: blocks of 8-bit products, cut to a fixed place, added exactly, and rounded with the accumulator.

`numc --define examples/own_unit/unit.py` makes it known to a command. l: the products that are added at once.
cut: the lowest bits of a product that are left out; the last one of all stands for 2^-18.
"""

import numc
from numc.circuits import scaled, select


@numc.reduction(a="fp8_e4m3", acc="e8m9")
def own(a, b, c, *, l=8, cut=8):  # noqa: D103, E741
    total, nan = 0, 0
    for x, y in zip(a, b, strict=True):
        n = (x.significand * y.significand << x.exponent + y.exponent + 12) >> cut
        total = total + select(x.sign ^ y.sign, -n, n)
        nan = nan | x.is_nan | y.is_nan
    return select(nan, float("nan"), scaled(total, cut - 18) + c)
