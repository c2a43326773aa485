"""Rounding to formats of single values, defined (arithmetic.md section 2); the integer arithmetic is in `exact/`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from numc.numerics.exact.value import POINT, bits_of, from_bits, to_array
from numc.numerics.formats import Conversion
from numc.numerics.formats import rounding as exact
from numc.numerics.grammar import parse_conversion
from numc.numerics.reference.random import conversion_draws, stream
from numc.support.environment import in_default_environment


@in_default_environment
def round(x: npt.ArrayLike, to: Conversion | str, *, stream: int = stream(0, 0)) -> npt.NDArray[np.float32]:
    """Return float32 `x` rounded to a format, as float32 of the same shape.

    stream: what a stochastic rounding draws from; each value by its index in C order (random.py).
    Raises NumcError for a text that is no conversion, TypeError for an `x` that float32 does not hold.
    """
    bits, to = bits_of(x), _as_conversion(to)
    to_format = exact.rounder(to, POINT)
    draws = conversion_draws(stream, bits.size, to.noise)
    return to_array((to_format(from_bits(b), u) for b, u in zip(bits.ravel().tolist(), draws, strict=True)), bits.shape)


@in_default_environment
def round_real(x: Fraction | int | float, to: Conversion | str, noise: int = 0) -> float:
    """Return any real number rounded once to a format; `noise`: the integer that a stochastic rounding adds.

    Raises NumcError for a text that is no conversion.
    """
    return exact.round_real(x, _as_conversion(to), noise)


def _as_conversion(to: Conversion | str) -> Conversion:
    """Return a conversion, parsed where it is a text."""
    return parse_conversion(to) if isinstance(to, str) else to
