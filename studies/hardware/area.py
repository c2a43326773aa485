"""The area of an operator's multipliers, and the passes of an fMAC (docs/cost.md has the laws and their sources)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from numc.numerics.formats import Format, Record
from numc.numerics.groups import GroupFormat
from numc.numerics.kinds.bfp import CHUNK
from numc.numerics.operators import BF16, Fma
from numc.support.arguments import checked_integer
from numc.support.environment import in_default_environment

FP32_AREA = 24 * 24


def passes(a: Format | GroupFormat, b: Format | GroupFormat) -> int | None:
    """Return how many passes an fMAC makes over a pair of groups; None without block floating point.

    An fMAC multiplies two bits of a magnitude by two in each pass (FAST, section V).
    """
    if isinstance(a, Format) or isinstance(b, Format) or "fmac2" not in a.datapaths or "fmac2" not in b.datapaths:
        return None
    return a.parts("fmac2") * b.parts("fmac2")


@in_default_environment
class StepPasses(NamedTuple):
    """The passes of an fMAC over a pair of groups in the three contractions of a layer.

    Sort widths by (total, backward): FAST orders (W, A, G) = (4, 2, 2) before (2, 2, 4), whose totals are equal.
    """

    forward: int
    dgrad: int
    wgrad: int

    @property
    def total(self) -> int:
        """All passes."""
        return sum(self)

    @property
    def backward(self) -> int:
        """The passes of the backward pass."""
        return self.dgrad + self.wgrad


@in_default_environment
def step_passes(weight: int, activation: int, gradient: int) -> StepPasses:
    """Return the passes of a layer whose weights, activations and gradients have so many magnitude bits.

    Raises NumcError for widths that are no number of 1 to 23 bits. Source: FAST, section IV.
    """
    widths = {"weight": weight, "activation": activation, "gradient": gradient}
    w, a, g = (-(-checked_integer(bits, f"{name} bits", 1, 23) // CHUNK) for name, bits in widths.items())
    return StepPasses(w * a, g * w, a * g)


def area(fma: Fma) -> int:
    """Return the area units of an operator: for each of its multipliers, significand bits of A times those of B.

    The hidden bit counts (thesis, section 7.4.2: the square of the number of significand bits). The area of an fMAC,
    which has 2 x 2 multipliers, is counted once for each pass.
    """
    a, b = fma.a.format, fma.b.format
    pass_count = passes(a, b)
    if pass_count is not None:
        return pass_count * CHUNK * CHUNK
    return fma.products * a.precision * b.precision


def iso_area(fma: Fma) -> Fraction:
    """Return the ratio of the number of products per area of an operator to that of fp32."""
    return Fraction(FP32_AREA, area(fma))


def bf16_products(fma: Fma) -> int:
    """Return the number of multiplications of bf16 numbers in one FMA; 0 if its operands have other formats."""
    parts = (fma.a.format, fma.b.format)
    return fma.products if all(_is_bf16(f) for f in parts) else 0


def _is_bf16(fmt: Format | GroupFormat) -> bool:
    bf16 = BF16.format
    return isinstance(fmt, Record) and replace(fmt, parts=1) == bf16
