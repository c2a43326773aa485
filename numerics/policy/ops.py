"""The arithmetic of float operations that are no multiply-adds (docs/arithmetic.md, "Other float operations")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from numc.numerics.formats import Conversion
from numc.numerics.grammar import MAX_LENGTH, parse_conversion
from numc.support.arguments import checked_text
from numc.support.errors import NumcError, did_you_mean, quoted

_WITH_SUMS = re.compile(
    r"(?P<format>.*)\(\s*(?P<key>\w+)\s*=(?P<sums>[^()]*(\([^()]*\))?[^()]*)\)\s*", re.ASCII | re.DOTALL
)


@dataclass(frozen=True)
class Ops:
    """Operands and results are rounded to `format`, the accumulator of a sum of elements to `sums`.

    The total of such a sum is rounded to `format` once.
    """

    format: Conversion
    sums: Conversion

    def __str__(self) -> str:
        return str(self.format) if self.sums == self.format else f"{self.format}(sums={self.sums})"

    @property
    def conversions(self) -> tuple[Conversion, Conversion]:
        """Both conversions."""
        return self.format, self.sums


def parse_ops(text: str) -> Ops:
    """Return the arithmetic that `text` writes, as ``bf16`` or ``bf16(sums=fp32)``. Raises NumcError."""
    both = _WITH_SUMS.fullmatch(checked_text(text, "format", MAX_LENGTH))
    if both is None or (both["key"] != "sums" and not _is_conversion(both["format"])):
        return Ops(to := parse_conversion(text), to)
    if both["key"] != "sums":
        near = did_you_mean(both["key"], ["sums"])
        raise NumcError(f"format {quoted(text)}: got {quoted(both['key'])}{near}: want F or F(sums=G)")
    return Ops(parse_conversion(both["format"].strip()), parse_conversion(both["sums"].strip()))


def _is_conversion(text: str) -> bool:
    try:
        parse_conversion(text.strip())
    except NumcError:
        return False
    return True
