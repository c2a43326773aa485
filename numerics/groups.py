"""Formats of groups of values that share a scale (arithmetic.md section 2): what a kind of them is, and a conversion.

A group is a run of `group` neighbours along one axis of a tensor (the last run may be short), or the whole tensor where
`group` is None. Every value is a small signed number, its element, times the scale of its group; the product is exact,
or rounded to binary32 once. A conversion takes the tensor and not one value: hence `GroupConversion` beside
`Conversion`. The kinds, and the names of formats, are in `kinds/`; docs/adding-a-kind-of-format.md makes another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

from numc.numerics.exact.value import ONE, Value
from numc.numerics.formats import Format, Noise, Open, check_rounding, noise_of
from numc.support import notebook
from numc.support.errors import NumcError

if TYPE_CHECKING:  # numpy is imported only where there are arrays: the name of a format has no need of it
    from numc.numerics.codes import Bits
    from numc.numerics.float_arrays import F32Array, F64Array
    from numc.numerics.numpy_rounding import ToInteger

Noisy = tuple[Value, int]  # a value, and what its rounding draws

#: What a contraction multiplies of an operand with groups: its values; what a sum of groups multiplies, which may be
#: integers, or elements that scales of all kinds are applied to; or the elements of blocks, with the scales of groups.
#: Parts: a value as an element, and the number by which that is multiplied when the value is read.
Factors = Literal["values", "sums", "elements", "parts"]


class GroupFormat(ABC):
    """One format with groups: its sizes, its conversion in exact numbers and on arrays, and its bits.

    Each kind is a frozen dataclass in `kinds/`. What a kind does not say is as most kinds have it.

    datapaths: those that multiply its elements. finite_only: a conversion that depends on the largest magnitude of the
    tensor takes the largest finite one; otherwise an infinity or a NaN makes it NaN. sums_exactly: the dot product of
    two groups is exact before it is rounded to binary32; otherwise every step of it is rounded to 24 bits.
    sums_integers: contractions multiply and add integers, and apply the scales of the tensors at their end; this is so
    for a format whose scale is that of the tensor, and for no other. sums_elements: they multiply and add elements
    without scales, and multiply the sum of a group by its scales.
    """

    datapaths: ClassVar[tuple[str, ...]] = ("fp32",)
    finite_only: ClassVar[bool] = False
    sums_exactly: ClassVar[bool] = True
    sums_integers: ClassVar[bool] = False
    sums_elements: ClassVar[bool] = False

    @property
    def shares_tensor(self) -> bool:
        """Whether conversions depend on the largest magnitude of the tensor."""
        return False

    @property
    def rows(self) -> int | None:
        """The number of neighbouring rows whose groups share a scale; None: all of the tensor."""
        return 1

    @property
    def written_out(self) -> bool:
        """Whether contractions convert it in operations of their own, because no kernel does."""
        return False

    @property
    def holds_scales(self) -> bool:
        """Whether every value is a word of an element and the scale of its group, which an operation has converted."""
        return False

    # Sizes.

    @property
    @abstractmethod
    def name(self) -> str:
        """The text that parses back to the format."""

    if TYPE_CHECKING:  # a field of some kinds, which a property of the base would take for its default

        @property
        def group(self) -> int | None:
            """The number of values that share a scale; None: all of the tensor."""

    @property
    def default_rounding(self) -> str:
        """The rounding where a text names none: to nearest even."""
        return "rne"

    @property
    @abstractmethod
    def precision(self) -> int:
        """Significant bits of an element."""

    @property
    @abstractmethod
    def most_units(self) -> int:
        """The largest magnitude of an element, in units of ``2 ** unit_exponent``."""

    @property
    def unit_exponent(self) -> int:
        """The exponent of two that every element is a multiple of."""
        return 0

    @property
    def single(self) -> Format | None:
        """The format of single values that elements are in, if they are in one."""
        return None

    @property
    def elements(self) -> Format | None:
        """The format of single values in whose codes elements can be held; values are these times a binary32 number."""
        return self.single

    @property
    def scales(self) -> Format | None:
        """The format that the scales of groups are in, if blocks of products can take them apart from elements."""
        return None

    @abstractmethod
    def group_bits(self, size: int) -> int:
        """Return the bits in which a group of `size` values is stored."""

    @property
    def bits_per_value(self) -> Fraction:
        """Storage of a full group, divided by its size; the scale of a whole tensor is not counted."""
        size = self.group or 1
        return Fraction(self.group_bits(size), size)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the group, its elements and its scales."""
        size = f"groups of {self.group} values" if self.group else "one scale for a tensor"
        most = self.most_units * Fraction(2) ** self.unit_exponent
        known = {
            "bits per value": f"{float(self.bits_per_value):g}",
            "element": "" if self.single is None else self.single.name,
            "largest element": f"{float(most):g} times its scale",
            "scale": "" if self.scales is None else self.scales.name,
        }
        line = "" if self.single is None else self.single.number_line(most)
        return notebook.card(self.name, notebook.facts(known), line, about=f"format with {size}")

    def has_codes(self, rounding: str) -> bool:
        """Whether elements have codes of `code_bits` from which this rounding makes the same elements again.

        A code has to be left for a positive number that rounds to zero, and others for what is not finite.
        """
        return False

    @property
    def code_bits(self) -> int:
        """The bits of the code of an element: how many units it has, with a sign."""
        return self.most_units.bit_length() + 1

    def parts(self, datapath: str) -> int:
        """The parts in which a datapath multiplies a value."""
        return 1

    def leading(self, parts: int) -> GroupFormat:
        """The format of the first `parts` parts of a value."""
        return self

    def opened(self, least: GroupFormat) -> Open | None:
        """The widths between those of `least` and of this format, if a run can choose them."""
        return None

    def at(self, significand: int) -> GroupFormat:
        """The format with that many significand bits, if it can be opened."""
        return self

    def open_name(self, widths: Open) -> str:
        """The text of the format with these open widths."""
        return self.name

    # The definition: one group at a time, in integers and fractions.

    def shared(self, largest: Value) -> Value:
        """The value that a tensor of a largest magnitude shares: an exponent, or a scale (a binary32 number)."""
        return 0

    @abstractmethod
    def convert(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> list[Value]:
        """The values that a group becomes; `shared`: what its tensor shares. All are NaN where the scale is."""

    def operands(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> list[Value]:
        """Return the factors of a contraction: the values, or integers where it sums integers."""
        return self.convert(group, to, shared)

    def parted(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> tuple[list[Value], Value]:
        """The elements of a group, and what they are multiplied by where contractions sum elements."""
        return self.operands(group, to, shared), ONE

    def scaled(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> tuple[list[Value], Value]:
        """The elements of a group and their scale, in its format; that is NaN if not all values are finite."""
        raise NotImplementedError(f"{self.name}: blocks of products do not take its elements")

    def tensor_scale(self, shared: Value) -> Value:
        """The factor of all elements times their scales: the scale of the tensor, or 1."""
        return ONE

    # The same on arrays, in binary64.

    def shared_by(self, largest: float) -> float:
        """The value that a tensor of a largest magnitude shares; `largest` can be an infinity or a NaN."""
        return 0.0

    @abstractmethod
    def quantize(self, values: F32Array, shared: float, to_integer: ToInteger) -> tuple[F64Array, F64Array]:
        """Return the elements of groups (n, size), and their scales (n, 1), NaN where a group has no finite values.

        to_integer: rounds to integers as the conversion does.
        """

    def factors(self, scales: F64Array, shared: float) -> F32Array:
        """Return what the elements of groups of these scales are multiplied by, where contractions sum elements."""
        factors: F32Array = scales.astype("float32")
        return factors

    def values_of(self, elements: F64Array, scales: F64Array, shared: float) -> F32Array:
        """Return elements (n, size) times the scales (n, 1) of their groups, which is exact."""
        values: F32Array = (elements * scales).astype("float32")
        return values

    # Bits (docs/arithmetic.md, "Packed storage").

    @abstractmethod
    def to_bits(self, elements: F64Array, scales: F64Array, shared: float) -> Bits:
        """Return elements (n, size) and scales (n, 1) as the bits of their groups, (n, group_bits)."""

    @abstractmethod
    def from_bits(self, bits: Bits, size: int, shared: float) -> tuple[F64Array, F64Array]:
        """The inverse of `to_bits`, for groups of `size` values."""

    @property
    def encoding(self) -> tuple[str, int, int] | None:
        """Their encoding in a program file: a kind of `runtime.storage.Encoding`, exponent and significand bits.

        None is a kind that the runtime does not read: weights of it stay float32 in program files.
        """
        return None


@dataclass(frozen=True)
class GroupConversion:
    """A format with groups and how elements are rounded; ``str`` gives the text that parses back to it.

    channel: the operand of a contraction has a scale for each of its rows or columns, and not one for the tensor.
    open: None, or the widths that a run chooses; `format` is the widest one then. discard: the significand bits that
    values are rounded to first, before the lowest ones are cut off; 0 if they are rounded to those of the format.
    Raises NumcError for an unknown rounding, and for channels of a format whose scales are not the tensor's.
    """

    format: GroupFormat
    rounding: str
    channel: bool = False
    open: Open | None = None
    discard: int = 0

    def __post_init__(self) -> None:
        if self.channel and self.format.group is not None:
            raise NumcError(f"'{self.format.name}:channel': only intN has scales that channels can have of their own")
        check_rounding(self.rounding, self.format.name)

    @property
    def noise(self) -> Noise | None:
        """The noise of a stochastic rounding, None for the others."""
        return noise_of(self.rounding)

    def at(self, exponent: int, significand: int) -> GroupConversion:
        """Return the conversion that a run with these widths computes; itself if its widths are not open."""
        if self.open is None:
            return self
        discard = self.discard if significand < self.discard else 0
        return GroupConversion(self.format.at(significand), self.rounding, self.channel, discard=discard)

    def __str__(self) -> str:
        name = self.format.name if self.open is None else self.format.open_name(self.open)
        rounding = "" if self.rounding == self.format.default_rounding else f":{self.rounding}"
        return f"{name}{rounding}" + (":channel" if self.channel else "") + (":discard" if self.discard else "")

    def of_tensors(self) -> GroupConversion:
        """Return the conversion itself where it means something outside of contractions. Raises NumcError."""
        if self.channel:
            raise NumcError(f"'{self}': channels are those of a contraction's operands, leave ':channel' out")
        return self
