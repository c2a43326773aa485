"""numc.pack and numc.unpack: tensors in the bytes of their format (docs/arithmetic.md, "Packed storage").

Fields of whole bits follow one another, each from its least significant bit up, and fill bytes from the least
significant bit up; only the last byte is padded, with zeros. So 16-bit and 32-bit formats are little-endian words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numc.compiler.arithmetic.codes import Codes, decode, decode_finite, encode, encode_finite, join, split
from numc.compiler.arithmetic.formats import Format
from numc.compiler.arithmetic.grammar import parse_any_conversion
from numc.compiler.arithmetic.groups import CHUNK, SCALE_BIAS, SCALE_BITS, Bfp, GroupConversion, GroupFormat, Int, Mx
from numc.compiler.arithmetic.numpy_groups import F64Array, blocks, exponents, layout, quantize, shared, to_values
from numc.compiler.arrays import F32Array, f32_array
from numc.compiler.arrays import round as round_array
from numc.compiler.support.errors import NumcError

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Packed:
    """A tensor in the bytes of a format.

    data: the bytes. shape: of the tensor. format: its text, without a rounding. axis: along which groups run, not
    negative; None where there are none. shared: what the tensor shares besides: the largest exponent of a bfp, the
    scale of an intN, otherwise 0.
    """

    data: bytes
    shape: tuple[int, ...]
    format: str
    axis: int | None = None
    shared: float = 0.0


def pack(x: npt.ArrayLike, to: str, *, axis: int | None = None) -> Packed:
    """Return `x` (float32, any shape) rounded to the format `to`, in its bytes; `numc.unpack` gives ``round(x, to)``.

    axis: along which groups run; None is the last one. Raises NumcError.
    """
    array, conversion = f32_array(x, "x"), parse_any_conversion(to)
    if conversion.noise is not None:
        raise NumcError(
            f"pack: '{conversion}' draws at random: numc.round(x, '{conversion}', seed=...) first, then pack"
        )
    if not isinstance(conversion, GroupConversion):
        fmt = conversion.format
        rounded = round_array(array, to, axis=axis)
        if fmt.significand_bits == 0 and not fmt.finite and np.isnan(rounded).any():
            raise NumcError(f"x has a NaN, which '{fmt.name}' has no encoding for: pack another format")
        words = split(array, fmt.parts) if fmt.parts > 1 else rounded
        return Packed(_code_bytes(encode(words.reshape(-1), fmt), fmt.bits // fmt.parts), array.shape, fmt.name)
    where = layout(array.shape, conversion.of_tensors().format, axis)
    rows = where.rows_of(array)
    tensor = shared(rows, conversion.format, where)
    data = b""
    if array.size:
        parts = [_part_bits(values, conversion, tensor) for values in where.split(rows)]
        data = _to_bytes(np.concatenate(parts, axis=1))
    return Packed(data, array.shape, conversion.format.name, where.axis, tensor)


def unpack(packed: Packed) -> F32Array:
    """Return the tensor that `numc.pack` packed.

    Raises NumcError for anything else, and where the parts of `packed` do not fit together.
    """
    if not isinstance(packed, Packed):
        raise NumcError(f"unpack: got {type(packed).__name__}, want what numc.pack returns")
    conversion = parse_any_conversion(packed.format)
    fmt = conversion.format
    if isinstance(fmt, Format):
        words = decode(_byte_codes(packed, math.prod(packed.shape) * fmt.parts, fmt.bits // fmt.parts), fmt)
        return (join(words.reshape(-1, fmt.parts)) if fmt.parts > 1 else words).reshape(packed.shape)
    where = layout(packed.shape, fmt, packed.axis)
    widths = [group_bits(fmt, size) for _, size in where.parts]
    total = where.rows * sum(count * width for (count, _), width in zip(where.parts, widths, strict=True))
    bits = _from_bytes(packed, total).reshape(where.rows, total // max(where.rows, 1))
    result, start = np.empty((where.rows, where.length), np.float32), 0
    for out, width in zip(where.split(result), widths, strict=True):
        count, size = out.shape[1:]
        part = bits[:, start : start + count * width].reshape(where.rows * count, width)
        values = np.empty((len(part), size), np.float32)
        for block in blocks(values):
            values[block] = to_values(*_group_codes(part[block], fmt, size, packed.shared), fmt)
        out[...] = values.reshape(out.shape)
        start += count * width
    return where.tensor_of(result)


def integer_bytes(numbers: F32Array, width: int) -> bytes:
    """Return integers, as floats, in the bytes that an `intN` of that width has them in."""
    return _code_bytes(numbers.reshape(-1).astype(np.int64) & (1 << width) - 1, width)


def group_bits(fmt: GroupFormat, size: int) -> int:
    """Return how many bits a group of `size` values takes."""
    if isinstance(fmt, Bfp):
        return fmt.chunks * (fmt.exponent_bits + size * (1 + CHUNK))
    if isinstance(fmt, Mx):
        return SCALE_BITS + size * fmt.element_bits
    return size * fmt.bits


# --- bits and bytes ------------------------------------------------------------


def _bits(codes: Codes, width: int) -> Bits:
    """(..., n) codes as (..., n * width) bits."""
    bits = np.empty((*codes.shape, width), np.uint8)
    small = codes.astype(np.uint8 if width <= 8 else np.uint32)
    for place in range(width):  # along the long axes: the bits of one code are too few for a loop of numpy
        bits[..., place] = small >> place & 1
    return bits.reshape(*codes.shape[:-1], codes.shape[-1] * width)


def _codes(bits: Bits) -> Codes:
    """(..., width) bits as (...) codes."""
    width = bits.shape[-1]
    codes = np.zeros(bits.shape[:-1], np.uint8 if width <= 8 else np.uint32)
    for place in range(width):
        codes |= bits[..., place].astype(codes.dtype) << place
    return codes.astype(np.int64)


def _to_bytes(bits: Bits) -> bytes:
    return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def _from_bytes(packed: Packed, count: int) -> Bits:
    """`count` bits of the data. Raises NumcError where it has not the bytes that they take."""
    _check_size(packed, count)
    return np.unpackbits(np.frombuffer(packed.data, np.uint8), count=count, bitorder="little")


def _check_size(packed: Packed, count: int) -> None:
    size = -(-count // 8)
    if len(packed.data) != size:
        raise NumcError(
            f"packed data has {len(packed.data)} bytes: '{packed.format}' of shape {packed.shape} takes {size}"
        )


def _code_bytes(codes: Codes, width: int) -> bytes:
    """Codes one after the other. Whole words take a short cut to the same bytes."""
    if width in _WORDS:
        return codes.astype(_WORDS[width]).tobytes()
    return _to_bytes(_bits(codes, width))


def _byte_codes(packed: Packed, count: int, width: int) -> Codes:
    """`count` codes of the data. Raises NumcError where it has not the bytes that they take."""
    if width in _WORDS:
        _check_size(packed, count * width)
        return np.frombuffer(packed.data, _WORDS[width]).astype(np.int64)
    return _codes(_from_bytes(packed, count * width).reshape(count, width))


_WORDS = {8: "<u1", 16: "<u2", 32: "<u4"}


# --- groups ------------------------------------------------------------


def _part_bits(values: F32Array, to: GroupConversion, tensor: float) -> Bits:
    """(rows, groups, size) values as (rows, groups * bits)."""
    groups = values.reshape(-1, values.shape[-1])
    bits = np.concatenate([_group_bits(groups[block], to, tensor) for block in blocks(groups)])
    return bits.reshape(len(values), -1)


def _group_bits(values: F32Array, to: GroupConversion, tensor: float) -> Bits:
    """(n, size) values as (n, bits)."""
    elements, scales = quantize(values, to, tensor)
    fmt = to.format
    if isinstance(fmt, Int):
        return _bits(elements.astype(np.int64) & (1 << fmt.bits) - 1, fmt.bits)
    is_nan = np.isnan(scales[:, 0])
    scale = exponents(np.where(is_nan, 1.0, scales[:, 0]))
    if isinstance(fmt, Mx):
        code = np.where(is_nan, (1 << SCALE_BITS) - 1, scale + SCALE_BIAS)
        return np.concatenate([_bits(code[:, None], SCALE_BITS), _mx_bits(elements, fmt)], axis=1)
    return np.concatenate(list(_bfp_chunks(elements, scale, is_nan, fmt, tensor)), axis=1)


def _bfp_chunks(
    elements: F64Array, scale: Codes, is_nan: npt.NDArray[np.bool_], fmt: Bfp, tensor: float
) -> Iterator[Bits]:
    """Chunks of magnitude bits, from the most significant one down, with the exponent and the signs in front of each.

    A group of the top exponent has a magnitude with its highest bit set: without one, the group is NaN.
    """
    bottom = int(tensor) - fmt.window
    code = np.where(is_nan, fmt.window, scale + (fmt.magnitude_bits - 1) - bottom)
    magnitude = np.abs(elements).astype(np.int64) << (fmt.chunks * CHUNK - fmt.magnitude_bits)
    sign = (np.signbit(elements) & ~is_nan[:, None]).astype(np.int64) << CHUNK
    for chunk in reversed(range(fmt.chunks)):
        yield _bits(code[:, None], fmt.exponent_bits)
        yield _bits(sign | (magnitude >> chunk * CHUNK & (1 << CHUNK) - 1), CHUNK + 1)


def _mx_bits(elements: F64Array, fmt: Mx) -> Bits:
    if not fmt.exponent_bits:
        steps = (elements * 2.0**fmt.significand_bits).astype(np.int64)
        return _bits(steps & (1 << fmt.element_bits) - 1, fmt.element_bits)
    return _bits(encode_finite(elements, fmt.exponent_bits, fmt.significand_bits), fmt.element_bits)


def _group_codes(bits: Bits, fmt: GroupFormat, size: int, tensor: float) -> tuple[F64Array, F64Array]:
    """(n, bits) as elements (n, size) and scales (n, 1)."""
    if isinstance(fmt, Int):
        return _signed(_codes(bits.reshape(len(bits), size, fmt.bits)), fmt.bits), np.full((len(bits), 1), tensor)
    if isinstance(fmt, Mx):
        code = _codes(bits[:, :SCALE_BITS])[:, None]
        scales = np.where(code == (1 << SCALE_BITS) - 1, np.nan, np.ldexp(1.0, code - SCALE_BIAS))
        codes = _codes(bits[:, SCALE_BITS:].reshape(len(bits), size, fmt.element_bits))
        if not fmt.exponent_bits:
            return _signed(codes, fmt.element_bits) * 2.0**-fmt.significand_bits, scales
        elements = decode_finite(codes, fmt.exponent_bits, fmt.significand_bits)
        # Codes above the largest value, which packing never writes: of E5M2 the next power of two is its infinity.
        infinity = np.copysign(np.inf, elements)
        special = np.where(np.abs(elements) == 2.0 ** (fmt.emax + 1), infinity, np.nan)
        return np.where(np.abs(elements) > float(fmt.largest), special, elements), scales
    chunks = bits.reshape(len(bits), fmt.chunks, fmt.exponent_bits + size * (1 + CHUNK))
    code = _codes(chunks[:, 0, : fmt.exponent_bits])
    fields = _codes(chunks[:, :, fmt.exponent_bits :].reshape(len(bits), fmt.chunks, size, 1 + CHUNK))
    magnitude = np.zeros((len(bits), size), np.int64)
    for chunk in range(fmt.chunks):
        magnitude = magnitude << CHUNK | fields[:, chunk] & (1 << CHUNK) - 1
    magnitude >>= fmt.chunks * CHUNK - fmt.magnitude_bits
    elements = np.copysign(magnitude.astype(np.float64), np.where(fields[:, 0] >> CHUNK, -1.0, 1.0))
    exponent = code + int(tensor) - fmt.window - (fmt.magnitude_bits - 1)
    is_nan = (code == fmt.window) & ~magnitude.any(axis=1)
    return elements, np.where(is_nan, np.nan, np.ldexp(1.0, exponent))[:, None]


def _signed(codes: Codes, width: int) -> F64Array:
    """Two's complement codes as numbers."""
    return (codes - ((codes >> width - 1) << width)).astype(np.float64)
