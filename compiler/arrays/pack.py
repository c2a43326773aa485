"""numc.pack and numc.unpack: tensors in the bytes of their format (docs/arithmetic.md, "Packed storage").

Fields of whole bits follow one another, each from its least significant bit up, and fill bytes from the least
significant bit up; only the last byte is padded, with zeros. So 16-bit and 32-bit formats are little-endian words.
With `align`, no field lies in two words (words.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from numc.compiler.arrays.arrays import F32Array, f32_array
from numc.compiler.arrays.arrays import round as round_array
from numc.compiler.arrays.packed_tiles import from_tile_bits, packed_tile_bits, tile_bits, to_tiles
from numc.compiler.arrays.words import checked_align, from_words, to_words, word_bytes
from numc.numerics.codes import Bits, Codes, bits_of_codes, codes_of_bits, join
from numc.numerics.formats import Format
from numc.numerics.grammar import parse_any_conversion
from numc.numerics.groups import GroupConversion, GroupFormat
from numc.numerics.kinds.tile_arrays import quantized_tiles
from numc.numerics.numpy_groups import blocks, layout, quantize, shared, to_values
from numc.support.arguments import checked, checked_integer
from numc.support.environment import in_default_environment
from numc.support.errors import NumcError, shortened


@dataclass(frozen=True)
class Packed:
    """A tensor in the bytes of a format.

    data: the bytes. shape: of the tensor. format: its text, without a rounding. axis: along which groups run, not
    negative; None where there are none. shared: what groups of the tensor share besides: the largest exponent of
    a bfp, the scale of an intN, otherwise 0. align: the bits of the words that no value lies across; None for dense
    storage. Raises NumcError for values of other types.
    """

    data: bytes
    shape: tuple[int, ...]
    format: str
    axis: int | None = None
    shared: float = 0.0
    align: int | None = None

    def __post_init__(self) -> None:
        checked(self.data, "packed data", bytes, "bytes"), checked(self.format, "packed format", str, "a text")
        if not isinstance(self.shape, tuple) or not 0 <= math.prod(_size(n) for n in self.shape) < 2**48:
            raise NumcError(f"packed shape: got {shortened(self.shape)}, want a tuple of sizes")
        if isinstance(self.shared, bool) or not isinstance(self.shared, int | float) or abs(self.shared) > 1e300:
            raise NumcError(f"packed 'shared': got {shortened(self.shared)}, want the number that numc.pack gave")
        checked_align(self.align)


def _size(value: object) -> int:
    return checked_integer(value, "packed shape", 0, 2**48)


@in_default_environment
def pack(x: npt.ArrayLike, to: str, *, axis: int | None = None, align: int | None = None) -> Packed:
    """Return `x`, as numc.round takes it, rounded to a format, in its bytes; `numc.unpack` gives ``round(x, to)``.

    axis: along which groups run; None is the last one. align: 8, 16, 32 or 64: values do not cross words of so many
    bits, floor(align / bits) of them in each. Formats whose groups store scales cannot be aligned. Raises NumcError.
    """
    conversion = parse_any_conversion(to)
    if (align := checked_align(align)) is not None:
        dense = pack(x, to, axis=axis)
        return replace(dense, data=to_words(dense.data, math.prod(dense.shape), conversion.format, align), align=align)
    if conversion.noise is not None:
        raise NumcError(
            f"pack: '{conversion}' draws at random: numc.round(x, '{conversion}', seed=...) first, then pack"
        )
    if not isinstance(conversion, GroupConversion):
        fmt = conversion.format
        rounded = round_array(x, to, axis=axis)
        words = _split(rounded, fmt) if fmt.parts > 1 else rounded
        return Packed(_code_bytes(fmt.encode_array(words.reshape(-1)), fmt.bits // fmt.parts), rounded.shape, fmt.name)
    array = f32_array(x, "x")
    where = layout(array.shape, conversion.of_tensors().format, axis)
    rows = where.rows_of(array)
    tensor = shared(rows, conversion.format)
    data = b""
    if array.size and to_tiles(conversion.format):
        data = _to_bytes(tile_bits(quantized_tiles(rows, conversion, tensor), conversion.format, tensor))
    elif array.size:
        parts = [_part_bits(values, conversion, tensor) for values in where.split(rows)]
        data = _to_bytes(np.concatenate(parts, axis=1))
    return Packed(data, array.shape, conversion.format.name, where.axis, tensor)


@in_default_environment
def unpack(packed: Packed) -> F32Array:
    """Return the tensor that `numc.pack` packed.

    Raises NumcError for anything else, and where the parts of `packed` do not fit together.
    """
    if not isinstance(packed, Packed):
        raise NumcError(f"unpack: got {type(packed).__name__}, want what numc.pack returns")
    fmt = parse_any_conversion(packed.format).format
    if packed.align is not None:
        number = math.prod(packed.shape)
        _check_size(packed, word_bytes(number, fmt, packed.align))
        packed = replace(packed, data=from_words(packed.data, number, fmt, packed.align), align=None)
    if isinstance(fmt, Format):
        words = fmt.decode_array(_byte_codes(packed, math.prod(packed.shape) * fmt.parts, fmt.bits // fmt.parts))
        return (join(words.reshape(-1, fmt.parts)) if fmt.parts > 1 else words).reshape(packed.shape)
    where = layout(packed.shape, fmt, packed.axis)
    if to_tiles(fmt):
        bits = _from_bytes(packed, packed_tile_bits(where.rows, where.length, fmt))
        return where.tensor_of(from_tile_bits(bits, where.rows, where.length, fmt, packed.shared))
    widths = [fmt.group_bits(size) for _, size in where.parts]
    total = where.rows * sum(count * width for (count, _), width in zip(where.parts, widths, strict=True))
    bits = _from_bytes(packed, total).reshape(where.rows, total // max(where.rows, 1))
    result, start = np.empty((where.rows, where.length), np.float32), 0
    for out, width in zip(where.split(result), widths, strict=True):
        count, size = out.shape[1:]
        part = bits[:, start : start + count * width].reshape(where.rows * count, width)
        values = np.empty((len(part), size), np.float32)
        for block in blocks(values):
            values[block] = to_values(*fmt.from_bits(part[block], size, packed.shared), packed.shared, fmt)
        out[...] = values.reshape(out.shape)
        start += count * width
    return where.tensor_of(result)


def element_bytes(elements: F32Array, fmt: GroupFormat) -> bytes:
    """Return elements, as floats, in the bytes of a format whose groups are stored without scales."""
    flat, unit_scale = elements.reshape(1, -1), np.ones((1, 1))
    step = 1 << 16  # whole bytes, whatever the format; bits take eight times their room
    starts = range(0, flat.size, step)
    return b"".join(
        _to_bytes(fmt.to_bits(flat[:, start : start + step].astype(np.float64), unit_scale, 0.0)) for start in starts
    )


def _split(x: F32Array, fmt: Format) -> F32Array:
    """Return values of a compound format as their parts, on a new last axis."""
    parts, rest, largest = [], x, np.float32(fmt.part.max_finite)
    for _ in range(fmt.parts):
        part = round_array(rest, fmt.part.name)
        # Half an ulp above the largest part is a value, too, which by itself is rounded to an infinity.
        overflown = np.isinf(part) & np.isfinite(rest)
        parts.append(np.where(overflown, np.copysign(largest, rest), part))
        with np.errstate(invalid="ignore"):  # there is nothing behind an infinity
            rest = np.where(np.isfinite(parts[0]), rest - parts[-1], np.float32(0))
    return np.stack(parts, axis=-1).astype(np.float32)


def _to_bytes(bits: Bits) -> bytes:
    return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def _from_bytes(packed: Packed, count: int) -> Bits:
    """`count` bits of the data. Raises NumcError where the data has another size."""
    _check_size(packed, -(-count // 8))
    return np.unpackbits(np.frombuffer(packed.data, np.uint8), count=count, bitorder="little")


def _check_size(packed: Packed, size: int) -> None:
    if len(packed.data) != size:
        raise NumcError(
            f"packed data has {len(packed.data)} bytes: '{packed.format}' of shape {packed.shape} takes {size}"
        )


def _code_bytes(codes: Codes, width: int) -> bytes:
    """Codes one after the other; codes of 8, 16 or 32 bits take a short cut to the same bytes."""
    if width in _WORDS:
        return codes.astype(_WORDS[width]).tobytes()
    return _to_bytes(bits_of_codes(codes, width))


def _byte_codes(packed: Packed, count: int, width: int) -> Codes:
    """`count` codes of the data. Raises NumcError where the data has another size."""
    if width in _WORDS:
        _check_size(packed, count * width // 8)
        return np.frombuffer(packed.data, _WORDS[width]).astype(np.int64)
    return codes_of_bits(_from_bytes(packed, count * width).reshape(count, width))


_WORDS = {8: "<u1", 16: "<u2", 32: "<u4"}


def _part_bits(values: F32Array, to: GroupConversion, tensor: float) -> Bits:
    """(rows, groups, size) values as (rows, groups * bits)."""
    groups = values.reshape(-1, values.shape[-1])
    bits = np.concatenate([to.format.to_bits(*quantize(groups[block], to, tensor), tensor) for block in blocks(groups)])
    return bits.reshape(len(values), -1)
