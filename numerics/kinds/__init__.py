"""The kinds of formats with groups, one file each, and the names of their formats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from numc.numerics.formats.kind import Kind
from numc.numerics.groups import GroupFormat
from numc.numerics.kinds import bfp, integer, mx
from numc.numerics.kinds.bfp import Bfp
from numc.numerics.kinds.integer import Int
from numc.numerics.kinds.mx import Mx
from numc.numerics.kinds.scaled_groups import ScaledGroups

KINDS: tuple[Kind[GroupFormat], ...] = (
    bfp.KIND,
    mx.KIND,
    integer.KIND,
)

# The accepted names, besides what the kinds read themselves, as bfp(g,e,m) and intN.
GROUP_FORMATS: Mapping[str, GroupFormat] = MappingProxyType(
    {name: fmt for kind in KINDS for name, fmt in kind.formats.items()}
)
# What a message says that may be written.
GROUP_SYNTAX = ", ".join(
    [
        *(kind.syntax for kind in KINDS if kind.call),
        *GROUP_FORMATS,
        *(kind.syntax for kind in KINDS if kind.syntax and not kind.call),
    ]
)

__all__ = ["GROUP_FORMATS", "GROUP_SYNTAX", "KINDS", "Bfp", "Int", "Mx", "ScaledGroups"]
