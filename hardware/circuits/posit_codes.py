"""Posits in circuits: a run of equal bits, the regime, is counted when they are read, and shifted in when rounded."""

from __future__ import annotations

from numc.hardware.circuits.exact_real import Real
from numc.numerics.circuits import (
    Whole,
    any_of,
    below,
    field,
    leading_zeros,
    maximum,
    minimum,
    select,
    within,
)
from numc.numerics.formats import Conversion, Posit


def decode_posit(fmt: Posit, code: Whole) -> Real:
    """The value of a code."""
    rest, size = fmt.width - 1, fmt.precision - 1  # bits behind the sign, and of the longest fraction
    sign = field(code, rest, 1)
    body = below(select(sign, (1 << fmt.width) - code, code), rest)
    ones = field(body, rest - 1, 1)
    run = leading_zeros(body ^ select(ones, (1 << rest) - 1, 0), rest)
    tail = below(body << run + 1 + fmt.exponent_bits, rest + fmt.exponent_bits)
    power = (select(ones, run - 1, -run) << fmt.exponent_bits) + field(tail, rest, fmt.exponent_bits)
    significand = 1 << size | below(tail, rest) >> rest - size
    exponent = maximum(power, -fmt.scale) - size
    return Real(
        sign,
        exponent,
        select(body == 0, 0, significand),
        nan=code == 1 << rest,
        least=((fmt.precision, -fmt.scale - size),),
    )


def encode_posit(x: Real, to: Conversion, fmt: Posit, noise: Whole) -> Whole:
    """The code of a number that is rounded once, as a code whose bits go on: to none of those of zero and of NaR."""
    rest, random = fmt.width - 1, to.how.random_bits
    zeros = leading_zeros(x.significand, x.bits)
    top = x.exponent + (x.bits - 1) - zeros
    fraction, places = below(x.significand << zeros, x.bits - 1), x.bits - 1
    seen = rest + max(random, 1)  # of a fraction, no rounding sees more than whether others are there
    if places > seen:
        fraction = fraction >> places - seen << 1 | any_of(below(fraction, places - seen))
        places = seen + 1
    top = within(minimum(maximum(top, -fmt.scale - 1), fmt.scale), -fmt.scale - 1, fmt.scale)
    regime, low = top >> fmt.exponent_bits, below(top, fmt.exponent_bits)
    positive = regime >= 0
    # The regime's last two bits, the exponent and the fraction, shifted down behind copies of the first one.
    word = (select(positive, -2, 1) << fmt.exponent_bits | low) << places | fraction
    shift = within(select(positive, regime, -1 - regime), 0, rest - 1)
    under = 2 + fmt.exponent_bits + places
    shifted = field(word << rest >> shift, 0, under + rest)
    size = (shifted >> under) + _up(x.sign, to, shifted, under, noise)
    size = within(maximum(minimum(size, (1 << rest) - 1), 1), 1, (1 << rest) - 1)
    size = select(x.infinite, (1 << rest) - 1, size) if to.overflow == "sat" else size
    code = select(x.sign, (1 << fmt.width) - size, size)
    is_zero = (x.significand == 0) & (x.infinite ^ 1)
    none = x.nan if to.overflow == "sat" else x.nan | x.infinite
    return select(none, 1 << rest, select(is_zero, 0, code))


def _up(sign: Whole, to: Conversion, shifted: Whole, under: int, noise: Whole) -> Whole:
    """Whether a code becomes the next one, from `under` bits behind its end."""
    left = below(shifted, under)
    if to.how.random_bits:
        return (field(left, under - to.how.random_bits, to.how.random_bits) + noise) >> to.how.random_bits
    half, odd = field(left, under - 1, 1), field(shifted, under, 1)
    behind = any_of(below(left, under - 1))
    choices: dict[str, Whole] = {
        "rne": half & (behind | odd),
        "rna": half,
        "rtz": 0,
        "odd": (half | behind) & (odd ^ 1),
        "rup": (half | behind) & (sign ^ 1),
        "rdn": (half | behind) & sign,
    }
    return choices[to.rounding]
