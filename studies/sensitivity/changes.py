"""The policies of a sensitivity: a model in fp32 of which one thing is in the narrow arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numc.numerics.formats import Conversion, Format, Record
from numc.numerics.grammar import parse_conversion
from numc.numerics.operators import FP32, Fma, parts_of
from numc.numerics.policy.layer import Layer
from numc.studies.search.groups import groups
from numc.support.errors import NumcError

WIDTHS = (3, 5, 7, 9, 11, 13, 16, 23)
"""The significand bits of accumulators that are tried where none are named."""


@dataclass(frozen=True)
class Change:
    """A part that is narrow. what: "all", "layer", "kind", "role", "operand" or "accumulator"; policy: its text."""

    what: str
    name: str
    policy: str


def changes(fma: Fma, layers: Sequence[Layer], widths: Sequence[int]) -> tuple[Change, ...]:
    """Return what is tried: everything; each layer, and each kind and role if there are several; parts of the operator.

    widths: the significand bits of accumulators. Raises NumcError for a model without contractions.
    """
    tried = [Change("all", "everything", f"default fma = {fma}")]
    for by in ("layer", "kind", "role"):
        among = groups(layers, by)
        if by == "layer" or len(among) > 1:
            tried += [Change(by, each.name, f"default fp32\n{each.rule} fma = {fma}") for each in among]
    return (*tried, *of_operator(fma, widths))


def of_operator(fma: Fma, widths: Sequence[int]) -> tuple[Change, ...]:
    """Return what is tried of the operator itself, in all layers: its operands, and accumulators of other widths."""
    parts = {"operand": operands(fma), "accumulator": accumulators(fma, widths)}
    return tuple(
        Change(what, name, f"default fma = {text}") for what, texts in parts.items() for name, text in texts.items()
    )


def operands(fma: Fma) -> dict[str, str]:
    """The operators of which only A, only B or both are narrow, by name; the sum is that of an FMA in fp32."""
    both = {"a": (fma.a, FP32), "b": (FP32, fma.b), "a and b": (fma.a, fma.b)}
    texts = {}
    for name, (a, b) in both.items():
        try:
            text = str(Fma(a=a, b=b, acc=FP32, products=parts_of(a, "fp32") * parts_of(b, "fp32")))
        except NumcError:
            continue  # formats that are not multiplied with one another
        if (a, b) != (FP32, FP32):
            texts[name] = text
    return texts


def accumulators(fma: Fma, widths: Sequence[int]) -> dict[str, str]:
    """The operators with accumulators of other widths, by their formats, where the operator takes them."""
    texts = {}
    for width in widths:
        acc = _of_width(fma.acc, width)
        if acc is None:
            continue
        try:
            texts[str(acc)] = str(replace(fma, name="", acc=acc))
        except NumcError:
            continue  # the sum of groups is in fp32
    return texts


def _of_width(acc: Conversion, width: int) -> Conversion | None:
    """An accumulator with another significand, of the same exponents and rounding; None if it has none."""
    fmt: Format = acc.format
    if not isinstance(fmt, Record):
        return None
    _, colon, rounding = str(acc).partition(":")
    return parse_conversion(f"e{fmt.exponent_bits}m{width}{colon}{rounding}")
