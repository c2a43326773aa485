"""Fine-tuning for accumulators of few bits: first without underflow, then as the hardware adds."""

from __future__ import annotations

import math
import os
from numbers import Real

from numc.numerics.policy.presets import narrow_accumulator
from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shown
from numc.train.recipes.schedule import Schedule

_UNBOUNDED = 8
"""Exponent bits with which nothing underflows, or overflows, that float32 holds."""


@in_default_environment
class NarrowAccumulators(Schedule):
    """Fine-tunes a trained model for accumulators of 12 bits or fewer (Blumenfeld et al., arXiv 2401.14110).

        recipe = numc.train.NarrowAccumulators(total_steps=5 * len(loader))

    The forward pass computes with products and sums of few bits, rounded toward zero; the backward pass and the update
    are fp32. In the first stage the exponents have 8 bits, so that nothing underflows; in the second they have those of
    the hardware. The paper's 12 bits are 7 of significand and 4 of exponent.
    """

    def __init__(
        self,
        total_steps: int,
        *,
        significand: int = 7,
        exponent: int = 4,
        bias: int = 10,
        chunk: int = 16,
        first: float = 0.5,
        seed: int = 0,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take the steps of the fine-tuning.

        significand, exponent, bias: of the accumulator. chunk: of the hardware, by which the bias of products is
        larger: log2(chunk) / 2. first: the fraction of the steps without underflow; 0 for none. seed, log: see Recipe.
        Raises NumcError for values that are not allowed.
        """
        name = type(self).__name__
        if isinstance(first, bool) or not isinstance(first, Real) or not 0 <= float(first) < 1:
            raise NumcError(f"{name}: first: got {shown(first)}, want a fraction from 0 and below 1, such as 0.5")
        bits = checked_integer(significand, f"{name}: significand", 1, 22)
        widths = checked_integer(exponent, f"{name}: exponent", 2, _UNBOUNDED)
        size = checked_integer(chunk, f"{name}: chunk", 1, 4096)
        shift = checked_integer(bias, f"{name}: bias", 1, 120)
        narrow = f"role forward fma = {narrow_accumulator(bits, widths, shift, size)}"
        free = f"role forward fma = fma(a=bf16,product=e{_UNBOUNDED}m{bits}:rtz,acc=e{_UNBOUNDED}m{bits}:rtz)"
        steps = checked_integer(total_steps, f"{name}: total_steps", 1, 2**53)
        stretches = [(float(first), free), (1.0, narrow)] if math.ceil(first * steps) else [(1.0, narrow)]
        super().__init__(stretches, steps, seed=seed, log=log)
