"""The ports of each kind of format with groups, one file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from numc.hardware.kinds import bfp, integer, mx, scaled_ports
from numc.hardware.port import Port, Read
from numc.numerics.groups import GroupFormat
from numc.numerics.kinds import Bfp, Int, Mx, ScaledGroups

# Each takes the name of an operand, its format, and how many elements a group has.
PORTS: Mapping[type[GroupFormat], Callable[[str, Any, int], tuple[list[Port], Read]]] = MappingProxyType({
    Bfp: bfp.ports,
    Mx: mx.ports,
    Int: integer.ports,
    ScaledGroups: scaled_ports.ports,
})  # fmt: skip
