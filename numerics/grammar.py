"""The texts of formats and of FMA operators, as ``e6m9:rtz``, ``bf16_2_2{3}``, ``fma(a=bf16, acc=fp32)``.

Names alone are looked up; expressions.py reads everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from numc.numerics.formats import FORMAT_SYNTAX, FORMATS, Conversion
from numc.numerics.groups import GroupConversion
from numc.numerics.kinds import GROUP_SYNTAX
from numc.numerics.operators import ALIASES, DEFINED, INTERNAL, Fma
from numc.numerics.recipes import RECIPES, SHORT, recipe_of
from numc.numerics.units import NAMED
from numc.support.arguments import checked_text
from numc.support.errors import NumcError, did_you_mean, quoted

MAX_LENGTH = 1000
"""The most characters of a text; the longest operator that means something has about 150."""


_REMEMBERED: list[Callable[[], None]] = []
F = TypeVar("F", bound=Callable[..., Any])


def remembered(function: F) -> F:
    """Keep what a function of operators' texts returned, until `forget` is called, because a name means another one."""
    kept = cache(function)
    _REMEMBERED.append(kept.cache_clear)
    return kept  # type: ignore[return-value]


def forget() -> None:
    """Forget what texts of operators mean."""
    for clear in _REMEMBERED:
        clear()


def parse_operand_conversion(text: str) -> Conversion | GroupConversion:
    """Return the conversion of an operand: to a format whose widths may be open. Raises NumcError."""
    return _of_conversion(checked_text(text, "format", MAX_LENGTH))


def parse_any_conversion(text: str) -> Conversion | GroupConversion:
    """Return the conversion `text` writes, to a format of fixed widths. Raises NumcError."""
    to = parse_operand_conversion(text)
    if to.open is not None:
        raise NumcError(
            f"format '{to}': only the operands and the product of an FMA operator have open widths, which a run "
            f"chooses: want fixed ones, such as '{to.at(*(most for _, most in to.open.both))}'"
        )
    return to


@remembered
def _of_conversion(text: str) -> Conversion | GroupConversion:
    if text in FORMATS:
        return Conversion(FORMATS[text])
    from numc.numerics.expressions import read_conversion

    return read_conversion(text)


def parse_conversion(text: str) -> Conversion:
    """Return the conversion of single values that `text` writes. Raises NumcError, for grouped formats too."""
    to = parse_any_conversion(text)
    if isinstance(to, GroupConversion):
        raise NumcError(
            f"format '{to}': a format with groups is for the operands of an FMA operator, numc.round and numc.pack; "
            f"use {FORMAT_SYNTAX}"
        )
    return to


def parse_group_conversion(text: str) -> GroupConversion:
    """Return the conversion to a grouped format that `text` writes. Raises NumcError, for other formats too."""
    to = parse_any_conversion(text)
    if isinstance(to, Conversion):
        raise NumcError(f"format '{to.format.name}' has no groups: want {GROUP_SYNTAX}")
    return to


def parse_fma(text: str) -> Fma:
    """Return the FMA operator `text` writes (arithmetic.md section 3). Raises NumcError."""
    if isinstance(text, str) and text in DEFINED:
        return DEFINED[text]
    return _of_fma(checked_text(text, "FMA operator", MAX_LENGTH))


def stated_fma(text: str) -> Fma:
    """Return the operator of a text that numc wrote, in IR or in a manifest: it can also be one of `INTERNAL`."""
    return INTERNAL.get(text) or parse_fma(text)


@remembered
def _of_fma(text: str) -> Fma:
    name = ALIASES.get(text, text)
    if name in NAMED:
        return NAMED[name]
    if (recipe := recipe_of(text)) is not None:
        return _of_fma(recipe["forward"])
    if "@" in text:
        known = [*SHORT, *RECIPES]
        raise NumcError(f"recipe {quoted(text)}{did_you_mean(text, known)}: want {', '.join(known)}")
    from numc.numerics.expressions import read_fma

    return read_fma(text)
