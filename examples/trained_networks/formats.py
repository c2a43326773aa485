"""The formats of the study, by label: an operator, and the widths that a run of its program chooses."""

from __future__ import annotations

from dataclasses import dataclass

OPEN = "e1..8m1..23"
BASE = "fp32"


@dataclass(frozen=True)
class Arithmetic:
    """fma: an operator, None for the default of numc, which is fp32. widths: exponent and significand bits of a run."""

    fma: str | None
    widths: tuple[int, int] | None = None


def wide_sums(label: str, rounding: str = ":rtz") -> Arithmetic:
    """Return the arithmetic of the thesis: operands are truncated, products rounded to nearest, sums are in fp32.

    label: the widths. rounding: of operands; none is to nearest.
    """
    exponent, significand = map(int, label.removeprefix("e").split("m"))
    operand = f"{OPEN}{rounding}"
    return Arithmetic(f"fma(a={operand}, b={operand}, product={OPEN}, acc=fp32)", (exponent, significand))


def narrow_sums(name: str) -> Arithmetic:
    """Return the same with sums that are rounded to the format, too. It is fixed, so every format is a program."""
    return Arithmetic(f"fma(a={name}:rtz, b={name}:rtz, product={name}, acc={name})")


SIGNIFICANDS = tuple(f"e8m{bits}" for bits in range(7, 0, -1))
EXPONENTS = tuple(f"e{bits}m7" for bits in range(8, 1, -1))
STANDARD = {"bf16": "e8m7", "fp16": "e5m10", "FP8 E4M3": "e4m3", "FP8 E5M2": "e5m2"}
"""Standard formats by their widths; all have infinities and subnormal numbers here, as in IEEE-754."""
NARROW = {f"{label}, sums in {label}": label for label in ("e8m7", "e5m10")}
"""The two of them whose sums are narrow, too."""
NEAREST = {f"{label}, nearest": label for label in ("e8m5", "e8m4", "e8m3", "e8m2", "e8m1", "e4m3", "e5m2")}
"""Formats to which operands are rounded to nearest, too, in place of truncated."""
WIDE = tuple(dict.fromkeys((*SIGNIFICANDS, *EXPONENTS, *STANDARD.values())))

ARITHMETICS = {
    BASE: Arithmetic(None),
    **{label: wide_sums(label) for label in WIDE},
    **{label: wide_sums(name, rounding="") for label, name in NEAREST.items()},
    **{label: narrow_sums(name) for label, name in NARROW.items()},
}
