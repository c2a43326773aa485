"""The kinds of formats of single values, one file each, and the names of their formats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from numc.numerics.formats.format import Format
from numc.numerics.formats.kind import Kind
from numc.numerics.formats.kinds import fixed, posit, record, table
from numc.numerics.formats.kinds.fixed import Fixed
from numc.numerics.formats.kinds.posit import Posit
from numc.numerics.formats.kinds.record import RECORDS, Record, exmy, p3109
from numc.numerics.formats.kinds.table import Table

KINDS: tuple[Kind[Format], ...] = (
    record.KIND,
    table.KIND,
    posit.KIND,
    fixed.KIND,
)

# The accepted names, besides what the kinds read themselves, as eXmY and posit(n,es).
FORMATS: Mapping[str, Format] = MappingProxyType({name: fmt for kind in KINDS for name, fmt in kind.formats.items()})
FORMAT_SYNTAX = "a name, eXmY, eXmYn, eXmYfn or 1/X/Y/d"
"""The texts of formats, as short messages list them."""
SYNTAX = ", ".join(kind.syntax for kind in KINDS)
"""All that may be written besides names."""

__all__ = [
    "FORMATS",
    "FORMAT_SYNTAX",
    "KINDS",
    "RECORDS",
    "SYNTAX",
    "Fixed",
    "Format",
    "Posit",
    "Record",
    "Table",
    "exmy",
    "p3109",
]
