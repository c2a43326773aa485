"""Circuits: functions of whole numbers with known ranges, from which references, kernels, models and RTL are made.

An ordinary Python function of whole numbers is its own exact reference: it is called with ``int``. Called with
`Number`, it leaves a `Circuit`: a graph of additions, multiplications, shifts, comparisons, selections and tables, of
which every value has a least and a greatest number, so that nothing wraps around and every width is known.
"""

from __future__ import annotations

from numc.numerics.circuits.circuit import Circuit, trace
from numc.numerics.circuits.functions import (
    absolute,
    any_of,
    below,
    decoded,
    field,
    join,
    leading_zeros,
    lookup,
    maximum,
    minimum,
    rounded,
    saturated,
    scaled,
    select,
    within,
    wrapped,
)
from numc.numerics.circuits.number import Number, Whole
from numc.numerics.circuits.real import Real

__all__ = [
    "Circuit",
    "Number",
    "Real",
    "Whole",
    "absolute",
    "any_of",
    "below",
    "decoded",
    "field",
    "join",
    "leading_zeros",
    "lookup",
    "maximum",
    "minimum",
    "rounded",
    "saturated",
    "scaled",
    "select",
    "trace",
    "within",
    "wrapped",
]
