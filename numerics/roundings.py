"""The roundings that a text can name, what the stochastic ones draw, and what becomes of numbers out of range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from numc.support.arguments import whole_number
from numc.support.errors import NumcError, quoted

ROUNDINGS = ("rne", "rtz", "rna", "rup", "rdn", "odd")
ROUNDING_SYNTAX = ", ".join(ROUNDINGS) + ", srN"
MOST_RANDOM_BITS = 24  # a binary32 number has no more significant bits for them to decide about
_STOCHASTIC = re.compile(r"sr(\d*)(?:\.(\w+))?", re.ASCII)


@dataclass(frozen=True)
class Noise:
    """The noise of stochastic rounding: a uniform integer of `bits` bits, added below the kept bits before the cut.

    lfsr: whether a linear feedback shift register supplies it; docs/arithmetic.md names and defines the generators.
    """

    bits: int
    lfsr: bool


@cache
def noise_of(rounding: str) -> Noise | None:
    """Return the noise of ``srN`` or ``srN.lfsr``, None for others. Raises NumcError for a bad N or generator."""
    match = _STOCHASTIC.fullmatch(rounding)
    if match is None:
        return None
    bits = whole_number(match[1] or "8", f"rounding {quoted(rounding)}")
    if not 1 <= bits <= MOST_RANDOM_BITS:
        raise NumcError(f"rounding {quoted(rounding)}: {bits} random bits, want 1 to {MOST_RANDOM_BITS}")
    if match[2] not in (None, "lfsr"):
        raise NumcError(
            f"rounding {quoted(rounding)}: unknown generator {quoted(match[2])}, want sr{bits} or sr{bits}.lfsr"
        )
    return Noise(bits, match[2] == "lfsr")


def check_rounding(rounding: str, name: str) -> None:
    """Raise NumcError for a rounding of the format `name` that does not exist."""
    if rounding not in ROUNDINGS and noise_of(rounding) is None:
        raise NumcError(f"rounding {quoted(rounding)} of '{name}': want {ROUNDING_SYNTAX}")


@dataclass(frozen=True)
class Rounding:
    """The properties of a conversion that depend on the kind of its format.

    name: one of ROUNDINGS, or srN. random_bits: how many a stochastic one draws, 0 for the others. saturates: what is
    beyond the largest value becomes that value. overflow: what the text says of it: "nan", "sat" or nothing.
    """

    name: str
    random_bits: int
    saturates: bool
    overflow: str = ""
