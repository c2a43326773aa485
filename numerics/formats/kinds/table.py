"""Tables: the values of a format are listed, and their places are the codes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from numc.numerics.formats.format import Format, check_code
from numc.numerics.formats.kind import Kind
from numc.numerics.roundings import check_rounding, noise_of
from numc.support.errors import NumcError, quoted

MOST_VALUES = 1 << 16
_MOST_WRITTEN = 256  # values in a text


@dataclass(frozen=True)
class Table(Format):
    """A list of 2 to 65536 different binary32 numbers, in any order: code n is `values[n]`. A NaN may be among them.

    What is beyond the largest or smallest value becomes that value, infinities too. round: the rounding of a text
    without one. Two formats are equal when their lists are. Raises NumcError for a list that is none.
    """

    values: tuple[float, ...]
    label: str = field(default="", compare=False)
    round: str = "rne"

    def __post_init__(self) -> None:
        what, most = f"format {quoted(self.name)}", MOST_VALUES if self.label else _MOST_WRITTEN
        if not 2 <= len(self.values) <= most:
            raise NumcError(f"{what}: {len(self.values)} values, want 2 to {most}")
        check_rounding(self.round, self.label)
        if noise_of(self.round) is not None:
            raise NumcError(f"{what}: round={self.round}, want one that draws no random bits")
        numbers = [value for value in self.values if value == value]
        for value in numbers:
            if not math.isfinite(value) or (to := _to_f32(value)) != value:
                near = f", as {to!r}" if math.isfinite(value) and math.isfinite(to) else ""
                raise NumcError(f"{what}: {value} is no finite float32 number: want those, and nan{near}")
        if len(set(numbers)) != len(numbers) or len(self.values) > len(numbers) + 1:
            repeated = next((v for v in numbers if numbers.count(v) > 1), math.nan)
            raise NumcError(f"{what}: the value {repeated} is there twice, keep one of them")
        if len(numbers) < 2:
            raise NumcError(f"{what}: {len(numbers)} number, want at least 2")

    def __hash__(self) -> int:
        return self._hash  # of a long list it takes long

    @cached_property
    def _hash(self) -> int:
        return hash(self.values)

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        return self.label or f"table({','.join(map(_text, self.values))})"

    @property
    def bits(self) -> int:
        """The bits that count the places in the list."""
        return (len(self.values) - 1).bit_length()

    @property
    def has_nan(self) -> bool:
        """Whether a NaN is in the list."""
        return any(value != value for value in self.values)

    @property
    def default_rounding(self) -> str:
        """The rounding of a text without one."""
        return self.round

    def decode(self, code: int) -> float:
        """Return a value of the list, NaN behind its end. Raises ValueError outside the codes."""
        check_code(self, code)
        return self.values[code] + 0.0 if code < len(self.values) else math.nan

    def encode(self, value: float | Fraction) -> int:
        """Return the place of a value. Raises ValueError for a number that is not in the list."""
        if value != value and self.has_nan:
            return next(code for code, each in enumerate(self.values) if each != each)
        return super().encode(value)


#: The formats that this process has defined (`format_of`), by their names without versions.
DEFINED: dict[str, Table] = {}


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


def _defined(name: str) -> Table | None:
    """The format that this process has defined by a name, which may have its version behind it. Raises NumcError."""
    plain, _, version = name.partition("#")
    fmt = DEFINED.get(plain)
    if version and (fmt is None or fmt.label != name):
        here = "no format of that name is" if fmt is None else f"'{fmt.label}' is"
        raise NumcError(
            f"format {quoted(name)}: {here} defined here, want the values that the program was compiled with"
        )
    return fmt


def _read(name: str, sizes: Sequence[str] | None) -> Table | None:
    if sizes is None and (defined := _defined(name)) is not None:
        return defined
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
