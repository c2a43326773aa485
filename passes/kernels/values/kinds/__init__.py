"""The code of each kind of format with groups, one file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numc.numerics.groups import Factors, GroupConversion, GroupFormat
from numc.numerics.kinds import Bfp, Int, Mx, ScaledGroups
from numc.passes.kernels.ssa import Value
from numc.passes.kernels.values.group_values import GroupCode
from numc.passes.kernels.values.kinds import bfp, integer, mx, scaled_code

# Each takes a conversion and its format.
CODE: Mapping[type[GroupFormat], Callable[[GroupConversion, Any], GroupCode]] = {
    Bfp: bfp.BfpCode,
    Mx: mx.MxCode,
    Int: integer.IntCode,
    ScaledGroups: scaled_code.ScaledCode,
}


def code_of(to: GroupConversion, width: Value | None = None, *, factors: Factors = "sums") -> GroupCode:
    """Return what appends the code of a conversion; width: an i64 scalar, if its widths are open.

    factors: as for a `GroupCode`.
    """
    return replace(CODE[type(to.format)](to, to.format), width=width, factors=factors)
