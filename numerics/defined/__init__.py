"""Operators that users define by a function: what these are, their graphs, and the decorators that make them."""

from __future__ import annotations

from numc.numerics.defined.definition import Definition, definition_of, is_defined
from numc.numerics.defined.graphs import USUAL, Ending, Graph, ending, regular_below, traced
from numc.numerics.defined.served import served_by

__all__ = [
    "USUAL",
    "Definition",
    "Ending",
    "Graph",
    "definition_of",
    "ending",
    "is_defined",
    "regular_below",
    "served_by",
    "traced",
]
