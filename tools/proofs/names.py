"""The operators that are compared: all that have names, but the two instructions of processors, and small formats."""

from __future__ import annotations

from numc.numerics.datapaths import Own
from numc.numerics.formats import KINDS
from numc.numerics.grammar import parse_conversion, parse_fma
from numc.numerics.kinds import GROUP_FORMATS
from numc.numerics.operators import FMAS
from numc.numerics.units import UNITS

_SMALL = 8


def named_operators() -> list[str]:
    """Return their names: those of numc, of units, and of formats with groups, which are operators, too."""
    names = [*FMAS, *UNITS, *GROUP_FORMATS]
    operators = {str(op): name for name in names for op in [parse_fma(name)] if op.groups or not _is_instruction(name)}
    return list(operators.values())


#: Formats of up to 8 bits beside those that have names.
_OTHERS = (
    "e5m0",
    "e3m2",
    "e4m3n",
    "e3m0",
    "binary8p1",
    "binary8p3",
    "binary6p2s",
    "fixed(3,4)",
    "ufixed(2,4)",
    "posit(6,1)",
)


def small_operators() -> list[str]:
    """Return the operators of formats of up to 8 bits, with accumulators of binary32 and, with a zero, of their own."""
    named = {fmt: name for kind in KINDS for name, fmt in kind.formats.items() if fmt.bits <= _SMALL}
    names = (*named.values(), *_OTHERS)
    pairs = [(name, acc) for name in names for acc in (name, "fp32") if parse_conversion(acc).format.has_zero]
    return [f"fma(a={name},acc={acc})" for name, acc in pairs]


def _is_instruction(name: str) -> bool:
    return isinstance(parse_fma(name).datapath.within, Own)
