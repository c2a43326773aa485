"""The circuits of each kind of format with groups, one file each: a group is read from its ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from numc.hardware.circuits.kinds import bfp, integer, mx, scaled_elements
from numc.hardware.circuits.kinds.group import Group
from numc.numerics import circuits
from numc.numerics.groups import GroupFormat
from numc.numerics.kinds import Bfp, Int, Mx, ScaledGroups

# Each takes the name of an operand, its format, how many elements a group has, and the numbers at the ports.
GROUPS: Mapping[type[GroupFormat], Callable[[str, Any, int, Mapping[str, circuits.Whole]], Group]] = MappingProxyType({
    Bfp: bfp.group,
    Mx: mx.group,
    Int: integer.group,
    ScaledGroups: scaled_elements.group,
})  # fmt: skip

#: Those whose sums of products are a chain of binary32, of which every step rounds.
CHAINS = frozenset({Mx})
