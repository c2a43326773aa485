"""Formats of single values, and conversions to them; everything is derived from one literal of each."""

from numc.numerics.formats.conversion import OVERFLOWS, Conversion, Open, range_text
from numc.numerics.formats.format import Format, floor_log2
from numc.numerics.formats.kinds import (
    FORMAT_SYNTAX,
    FORMATS,
    KINDS,
    RECORDS,
    SYNTAX,
    Fixed,
    Posit,
    Record,
    Table,
    exmy,
)
from numc.numerics.roundings import (
    MOST_RANDOM_BITS,
    ROUNDING_SYNTAX,
    ROUNDINGS,
    Noise,
    check_rounding,
    noise_of,
)

__all__ = [
    "FORMATS",
    "FORMAT_SYNTAX",
    "KINDS",
    "MOST_RANDOM_BITS",
    "OVERFLOWS",
    "RECORDS",
    "ROUNDINGS",
    "ROUNDING_SYNTAX",
    "SYNTAX",
    "Conversion",
    "Fixed",
    "Format",
    "Noise",
    "Open",
    "Posit",
    "Record",
    "Table",
    "check_rounding",
    "exmy",
    "floor_log2",
    "noise_of",
    "range_text",
]
