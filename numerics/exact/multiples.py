"""The rounding of an integer to a multiple of a power of two: what every exact rounding comes down to."""

from __future__ import annotations

from numc.numerics.roundings import Rounding


def to_multiple(magnitude: int, shift: int, rounding: str, negative: bool, even_is_odd: bool = False) -> int:
    """Return the multiple of ``2 ** shift`` (shift > 0) that a rounding chooses for ``-magnitude`` or ``magnitude``.

    even_is_odd: whether the code of an even number of units is odd.
    """
    units = magnitude >> shift
    rest = magnitude - (units << shift)
    half = 1 << (shift - 1)
    odd = bool(units & 1) != even_is_odd
    if rounding == "rne":  # a tie goes to the even number of units, also where the precision is one bit
        up = rest > half or (rest == half and odd)
    elif rounding == "rna":
        up = rest >= half
    elif rounding == "odd":  # inexact: the neighbour with an odd number of units
        up = rest > 0 and not odd
    elif rounding == "rtz":
        up = False
    else:  # rup, rdn
        up = rest > 0 and negative == (rounding == "rdn")
    return units + up << shift


def to_noisy_multiple(magnitude: int, shift: int, random_bits: int, noise: int) -> int:
    """Return ``magnitude`` plus ``noise * 2^(shift - random_bits)``, truncated to a multiple of ``2 ** shift``.

    noise: uniform in [0, 2^random_bits). A multiple stays what it is, and what lies below the noise never matters.
    """
    return ((magnitude << random_bits >> shift) + noise) >> random_bits << shift


def chosen_multiple(
    magnitude: int, shift: int, how: Rounding, negative: bool, noise: int, even_is_odd: bool = False
) -> int:
    """Return the multiple that a rounding chooses, which draws `noise` if it has random bits.

    A magnitude is a multiple already where `shift` is not positive.
    """
    if shift <= 0:
        return magnitude
    if how.random_bits:
        return to_noisy_multiple(magnitude, shift, how.random_bits, noise)
    return to_multiple(magnitude, shift, how.name, negative, even_is_odd)
