"""The arithmetics of the study, in the paper's names: ``1/6/9/n FMAC-8 + DLS``."""

from __future__ import annotations

BASE = "fp32"
OPERATORS = {"FMAC-8": "fmac({format},chunk=8)", "FMACS": "fmacs({format})"}
"""The paper's ways to accumulate: eight steps in 16 bits and then one in fp32; and fp32 throughout."""
FORMATS = ("1/5/10", "1/6/9")
SCALED = " + DLS"
SUMS = ", sums fp32"
"""Sums of elements outside of contractions have an fp32 accumulator, and only their totals are rounded."""


def named(operator: str, denormals: str) -> list[str]:
    """Return the arithmetics in the order of the paper's columns. denormals: d (there are some) or n (none)."""
    return [f"{name}/{denormals} {operator}{scaled}" for name in FORMATS for scaled in ("", SCALED)]


def policy(name: str) -> str:
    """Return the arithmetic as a policy: the preset 1/6/9/strict in that format and with that operator."""
    if name == BASE:
        return "default fp32"
    text, operator = name.removesuffix(SCALED).removesuffix(SUMS).split()
    fma = OPERATORS[operator].format(format=text)
    ops = f"{text}(sums=fp32)" if SUMS in name else text
    return f"default fma = {fma}, ops = {ops}, bias = last; role update, norm, softmax fp32"


ALL = (BASE, *(name for operator in OPERATORS for denormals in "dn" for name in named(operator, denormals)))
WITH_SUMS = (f"1/6/9/n FMAC-8{SUMS}",)
"""What `--sums` trains besides."""
