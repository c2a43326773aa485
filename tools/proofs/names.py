"""The operators that are compared: all that have names, but the two instructions of processors, which have no RTL."""

from __future__ import annotations

from numc.numerics.datapaths import Own
from numc.numerics.grammar import parse_fma
from numc.numerics.kinds import GROUP_FORMATS
from numc.numerics.operators import FMAS
from numc.numerics.units import UNITS


def named_operators() -> list[str]:
    """Return their names: those of numc, of units, and of formats with groups, which are operators, too."""
    names = [*FMAS, *UNITS, *GROUP_FORMATS]
    operators = {str(op): name for name in names for op in [parse_fma(name)] if op.groups or not _is_instruction(name)}
    return list(operators.values())


def _is_instruction(name: str) -> bool:
    return isinstance(parse_fma(name).datapath.within, Own)
