"""The speed-up of a training that switches arithmetics, from its shares and the seconds of a step in each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real

from numc.support.arguments import checked
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, did_you_mean, quoted, shown


@in_default_environment
def speed_up(shares: Mapping[str, float], seconds: Mapping[str, float], base: str = "fp32") -> float:
    """Return seconds[base] / Σ shares[name] · seconds[name].

    shares: for each arithmetic the fraction of the work that was done in it, such as `Recipe.step_shares`; their sum is
    1. seconds: of a step, if all of it is done in one arithmetic. base: the arithmetic to compare with.
    Raises NumcError for other shares, and for an arithmetic without seconds. Source: section 6.7 of J. Osorio Rios,
    "Adapting Floating-Point Precision to Accelerate Deep Neural Network Training" (2023).
    """
    for what, numbers in (("shares", shares), ("seconds", seconds)):
        checked(numbers, what, Mapping, "a mapping from arithmetics to numbers")
        for name, value in numbers.items():
            least = "0 or more" if what == "shares" else "more than 0"
            right = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
            if not right or value < 0 or (what == "seconds" and value == 0):
                raise NumcError(f"{what} of {quoted(name)}: got {shown(value)}, want a number, {least}")
    for name in (base, *shares):
        if name not in seconds:
            raise NumcError(
                f"seconds: none for {quoted(name)}{did_you_mean(name, seconds)}: give those of a step in it"
            )
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise NumcError(f"shares: their sum is {sum(shares.values()):.6g}, want 1")
    return seconds[base] / sum(share * seconds[name] for name, share in shares.items())
