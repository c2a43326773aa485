"""Tables: the values of a format are listed, and their places are the codes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from numc.numerics.formats.format import Format, check_code
from numc.numerics.formats.kind import Kind
from numc.support.errors import NumcError, quoted

MOST_VALUES = 256


@dataclass(frozen=True)
class Table(Format):
    """A list of 2 to 256 different binary32 numbers, in any order: code n is `values[n]`.

    What is beyond the largest or smallest value becomes that value, infinities too. There is no NaN. Two formats are
    equal when their lists are. Raises NumcError for a list that is none.
    """

    values: tuple[float, ...]
    label: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        what = f"format {quoted(self.name)}"
        if not 2 <= len(self.values) <= MOST_VALUES:
            raise NumcError(f"{what}: {len(self.values)} values, want 2 to {MOST_VALUES}")
        for value in self.values:
            if not math.isfinite(value) or _to_f32(value) != value:
                raise NumcError(f"{what}: {value} is no finite float32 number")
        if len(set(self.values)) != len(self.values):
            raise NumcError(f"{what}: a value is there twice, keep one of them")

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        return self.label or f"table({','.join(map(_text, self.values))})"

    @property
    def bits(self) -> int:
        """The bits that count the places in the list."""
        return (len(self.values) - 1).bit_length()

    def decode(self, code: int) -> float:
        """Return a value of the list, NaN behind its end. Raises ValueError outside the codes."""
        check_code(self, code)
        return self.values[code] + 0.0 if code < len(self.values) else math.nan


def _to_f32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf


def _text(value: float) -> str:
    """The shortest decimal that is read as the same float32 number."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _to_f32(float(text)) == value:
            return text.removesuffix(".0")
    return repr(value)


# QLoRA (Dettmers et al., 2023), appendix E: as bitsandbytes and torchao write them.
NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)  # fmt: skip


def _read(name: str, sizes: Sequence[str] | None) -> Table | None:
    if name != "table" or sizes is None:
        return None
    try:
        values = [_to_f32(float(size)) for size in sizes]
    except ValueError:
        raise NumcError(
            "format 'table(...)': want table(v,w,...), numbers separated by commas, in the order of codes"
        ) from None
    return Table(tuple(value + 0.0 for value in values))


KIND: Kind[Table] = Kind(
    name="tables",
    formats={"nf4": Table(NF4, "nf4")},
    read=_read,
    syntax="table(v,w,...)",
    call="table",
    example="table(-1,-0.5,0,0.5,1)",
)
