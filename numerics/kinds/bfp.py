"""Block floating point: a group of values shares an exponent, elements are magnitudes with a sign and no hidden bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from numc.numerics.exact.value import POINT, Value
from numc.numerics.formats import Open, range_text
from numc.numerics.formats.kind import Kind
from numc.numerics.groups import GroupConversion, GroupFormat, Noisy
from numc.numerics.kinds.exact_groups import exponent, is_finite, is_negative, signed, times_power, units
from numc.support.arguments import whole_number
from numc.support.errors import NumcError

if TYPE_CHECKING:
    from numc.numerics.codes import Bits
    from numc.numerics.float_arrays import F32Array, F64Array
    from numc.numerics.numpy_rounding import ToInteger

CHUNK = 2  # magnitude bits that are stored, and multiplied, together (FAST's fMAC)


@dataclass(frozen=True)
class Bfp(GroupFormat):
    """`group` values share an exponent E; a value is sign * M * 2^(E - (magnitude_bits - 1)).

    0 <= M < 2^magnitude_bits, no hidden bit. E is stored in `exponent_bits`, as its distance from the bottom of a
    window whose top is the largest E of the tensor. Raises NumcError for sizes out of range.
    """

    datapaths: ClassVar[tuple[str, ...]] = ("fp32", "fmac2")
    shares_tensor: ClassVar[bool] = True
    finite_only: ClassVar[bool] = True

    group: int
    exponent_bits: int
    magnitude_bits: int

    def __post_init__(self) -> None:
        if self.group < 1:
            raise NumcError(f"format '{self.name}': groups of {self.group} values, want 1 or more")
        if not 1 <= self.exponent_bits <= 8:
            raise NumcError(
                f"format '{self.name}': {self.exponent_bits} exponent bits, want 1 to 8 (float32 itself has 8)"
            )
        if not 1 <= self.magnitude_bits <= 23:
            raise NumcError(
                f"format '{self.name}': {self.magnitude_bits} magnitude bits, "
                "want 1 to 23 (a float32 holds 24, and needs no group)"
            )

    @property
    def name(self) -> str:
        """The text that parses back to the format."""
        return f"bfp({self.group},{self.exponent_bits},{self.magnitude_bits})"

    @property
    def default_rounding(self) -> str:
        """Truncation, as FAST converts weights and activations."""
        return "rtz"

    @property
    def precision(self) -> int:
        """Significant bits of an element."""
        return self.magnitude_bits

    @property
    def largest(self) -> int:
        """The largest M."""
        return (1 << self.magnitude_bits) - 1

    @property
    def most_units(self) -> int:
        """The largest M."""
        return self.largest

    @property
    def window(self) -> int:
        """The number of exponents that a group can have below the largest one of the tensor."""
        return (1 << self.exponent_bits) - 1

    @property
    def chunks(self) -> int:
        """The number of times that a group is stored, with CHUNK magnitude bits each."""
        return -(-self.magnitude_bits // CHUNK)

    def group_bits(self, size: int) -> int:
        """Each chunk repeats the exponent and the signs."""
        return self.chunks * (self.exponent_bits + size * (1 + CHUNK))

    def has_codes(self, rounding: str) -> bool:
        """Any rounding leaves elements as they are."""
        return self.magnitude_bits > 1

    def parts(self, datapath: str) -> int:
        """An fMAC multiplies chunk by chunk."""
        return self.chunks if datapath == "fmac2" else 1

    def leading(self, parts: int) -> Bfp:
        """The first chunks of a magnitude: a coarser format with the same exponents."""
        return Bfp(self.group, self.exponent_bits, min(parts * CHUNK, self.magnitude_bits))

    def opened(self, least: GroupFormat) -> Open | None:
        """Magnitude bits can be open."""
        if not isinstance(least, Bfp) or replace(least, magnitude_bits=self.magnitude_bits) != self:
            return None
        return Open((self.exponent_bits, self.exponent_bits), (least.magnitude_bits, self.magnitude_bits))

    def at(self, significand: int) -> Bfp:
        """The format with that many magnitude bits."""
        return replace(self, magnitude_bits=significand)

    def open_name(self, widths: Open) -> str:
        """A range of magnitude bits."""
        return f"bfp({self.group},{self.exponent_bits},{range_text(*widths.significand)})"

    def shared(self, largest: Value) -> Value:
        """The largest exponent of a tensor, the top of the window; 0 where there is none."""
        return exponent([largest]) or 0

    def convert(self, group: Sequence[Noisy], to: GroupConversion, shared: Value) -> list[Value]:
        """The values of one group; `shared` is the top of the tensor's window."""
        values, top = [value for value, _ in group], int(shared)
        if not is_finite(values):
            return [math.nan] * len(values)
        own = exponent(values)
        raised = max(top if own is None else own, top - self.window)  # any exponent will do for a group of zeros
        shift = raised - (self.magnitude_bits - 1) + POINT
        cut = max(to.discard - self.magnitude_bits, 0)
        most = (self.largest + 1 << cut) - 1
        sizes = [min(units(value, shift - cut, to, noise), most) >> cut for value, noise in group]
        return [signed(times_power(m, shift), is_negative(value)) for m, value in zip(sizes, values, strict=True)]

    def shared_by(self, largest: float) -> float:
        """Return the largest exponent of a tensor by its largest magnitude, as `shared` does."""
        return float(math.frexp(largest)[1] - 1) if 0 < largest < math.inf else 0.0

    def quantize(self, values: F32Array, shared: float, to_integer: ToInteger) -> tuple[F64Array, F64Array]:
        """Elements are M, with its sign."""
        import numpy as np

        from numc.numerics import numpy_rounding as arrays
        from numc.numerics.float_arrays import exponents

        largest = arrays.largest_magnitudes(values)
        is_nan = ~np.isfinite(largest)
        shift = np.maximum(exponents(largest), int(shared) - self.window) - (self.magnitude_bits - 1)
        scaled = arrays.scaled_down(values, shift, is_nan)
        return arrays.rounded(scaled, to_integer, self.largest), arrays.scales(shift, is_nan)

    def to_bits(self, elements: F64Array, scales: F64Array, shared: float) -> Bits:
        """Chunks of magnitude bits, the most significant first, each with the exponent and the signs in front.

        A group of the top exponent has a magnitude with its highest bit set: without one, the group is NaN.
        """
        import numpy as np

        from numc.numerics.codes import bits_of_codes
        from numc.numerics.float_arrays import exponents

        is_nan = np.isnan(scales[:, 0])
        scale = exponents(np.where(is_nan, 1.0, scales[:, 0]))
        bottom = int(shared) - self.window
        code = np.where(is_nan, self.window, scale + (self.magnitude_bits - 1) - bottom)
        magnitude = np.abs(elements).astype(np.int64) << (self.chunks * CHUNK - self.magnitude_bits)
        sign = (np.signbit(elements) & ~is_nan[:, None]).astype(np.int64) << CHUNK
        bits = []
        for chunk in reversed(range(self.chunks)):
            bits.append(bits_of_codes(code[:, None], self.exponent_bits))
            bits.append(bits_of_codes(sign | (magnitude >> chunk * CHUNK & (1 << CHUNK) - 1), CHUNK + 1))
        return np.concatenate(bits, axis=1)

    def from_bits(self, bits: Bits, size: int, shared: float) -> tuple[F64Array, F64Array]:
        """The inverse of `to_bits`."""
        import numpy as np

        from numc.numerics.codes import codes_of_bits

        chunks = bits.reshape(len(bits), self.chunks, self.exponent_bits + size * (1 + CHUNK))
        code = codes_of_bits(chunks[:, 0, : self.exponent_bits])
        fields = codes_of_bits(chunks[:, :, self.exponent_bits :].reshape(len(bits), self.chunks, size, 1 + CHUNK))
        magnitude = np.zeros((len(bits), size), np.int64)
        for chunk in range(self.chunks):
            magnitude = magnitude << CHUNK | fields[:, chunk] & (1 << CHUNK) - 1
        magnitude >>= self.chunks * CHUNK - self.magnitude_bits
        elements = np.copysign(magnitude.astype(np.float64), np.where(fields[:, 0] >> CHUNK, -1.0, 1.0))
        shift = code + int(shared) - self.window - (self.magnitude_bits - 1)
        is_nan = (code == self.window) & ~magnitude.any(axis=1)
        return elements, np.where(is_nan, np.nan, np.ldexp(1.0, shift))[:, None]

    @property
    def encoding(self) -> tuple[str, int, int] | None:
        """The runtime reads chunks of magnitudes."""
        return "bfp", self.exponent_bits, self.magnitude_bits


def _read(name: str, sizes: Sequence[str] | None) -> Bfp | None:
    if name != "bfp" or sizes is None:
        return None
    if len(sizes) != 3 or not all(size.isdecimal() for size in sizes):
        raise NumcError("format 'bfp(...)': want bfp(g,e,m), three numbers: group, exponent and magnitude bits")
    return Bfp(*(whole_number(size, "format 'bfp(...)'") for size in sizes))


KIND = Kind(
    name="bfp",
    formats={
        "msfp12": Bfp(16, 8, 3),
        "lowbfp": Bfp(16, 3, 2),
        "midbfp": Bfp(16, 3, 3),
        "highbfp": Bfp(16, 3, 4),
    },
    read=_read,
    syntax="bfp(g,e,m)",
    call="bfp",
    example="bfp(16,3,4)",
)
