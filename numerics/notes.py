"""Formats whose names mean another one elsewhere: the sentence that says so."""

from __future__ import annotations

from collections.abc import Iterable

from numc.numerics.formats import Conversion, Format, exmy
from numc.numerics.grammar import stated_fma
from numc.numerics.groups import GroupConversion, GroupFormat
from numc.numerics.operators import Fma
from numc.numerics.policy.text import parse_policy
from numc.support.errors import NumcError

_NOTES: dict[Format, str] = {
    exmy(4, 3): "e4m3 is like IEEE-754, with infinities, up to 240; the E4M3 of OCP, NVIDIA, PyTorch (448) is e4m3fn",
    exmy(
        4, 3, finite=True
    ): "e4m3fn is the E4M3 of OCP, NVIDIA, PyTorch, up to 448; the one like IEEE-754 (240) is e4m3",
}


def note_of(fmt: Format | GroupFormat) -> str:
    """Return the sentence about a format, or its elements; "" where there is none."""
    single = fmt if isinstance(fmt, Format) else fmt.single
    return "" if single is None else _NOTES.get(single, "")


def notes_of(fma: Fma) -> list[str]:
    """Return the sentences about the formats of an operator, each once."""
    conversions: list[Conversion | GroupConversion | None] = [fma.a, fma.b, fma.acc, fma.product]
    return list(dict.fromkeys(note for to in conversions if to is not None and (note := note_of(to.format))))


def notes_in(operators: Iterable[str]) -> list[str]:
    """Return the sentences about the formats of operators, each once. A text that is no operator has none."""
    sentences: dict[str, None] = {}
    for text in operators:
        try:
            sentences |= dict.fromkeys(notes_of(stated_fma(text)))
        except NumcError:  # such as the name of an arithmetic, or an operator of another process
            continue
    return list(sentences)


def notes_in_policy(text: str) -> list[str]:
    """Return the sentences about the formats of a policy's operators. Raises NumcError if the text is no policy."""
    return notes_in(value for rule in parse_policy(text).rules for _, value in rule.settings)
