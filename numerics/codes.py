"""Codes of single values on whole arrays, in numpy, and codes as bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from numc.numerics.float_arrays import F32Array, F64Array, exponents

Codes = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]


def encode_finite(x: F64Array, exponent_bits: int, significand_bits: int) -> Codes:
    """Return the codes of finite values: sign, biased exponent, significand, as in IEEE-754."""
    bias = (1 << exponent_bits - 1) - 1
    magnitude = np.abs(x)
    exponent = np.maximum(exponents(magnitude), 1 - bias)
    units = np.ldexp(magnitude, significand_bits - exponent).astype(np.int64)  # the hidden bit counts 1 exponent
    code: Codes = (exponent + bias - 1 << significand_bits) + units
    return code | np.signbit(x).astype(np.int64) << exponent_bits + significand_bits


def decode_finite(codes: Codes, exponent_bits: int, significand_bits: int) -> F64Array:
    """Return the values of codes, as if all were those of finite values."""
    bias = (1 << exponent_bits - 1) - 1
    biased = codes >> significand_bits & (1 << exponent_bits) - 1
    units = (codes & (1 << significand_bits) - 1) + (np.minimum(biased, 1) << significand_bits)
    magnitude = np.ldexp(units.astype(np.float64), np.maximum(biased, 1) - bias - significand_bits)
    signed: F64Array = np.copysign(magnitude, np.where(codes >> exponent_bits + significand_bits, -1.0, 1.0))
    return signed


def join(parts: F32Array) -> F32Array:
    """Return (n, count) parts of numbers as values: the first one where it is zero, with its sign, or not finite."""
    first = parts[:, 0]
    values: F32Array = np.where(np.isfinite(first) & (first != 0), parts.sum(axis=1, dtype=np.float64), first)
    return values.astype(np.float32)


def signed_codes(codes: Codes, width: int) -> F64Array:
    """Return two's complement codes as numbers."""
    return (codes - ((codes >> width - 1) << width)).astype(np.float64)


def bits_of_codes(codes: Codes, width: int) -> Bits:
    """Return (..., n) codes as (..., n * width) bits, from the least significant one of each up."""
    if width in (8, 16, 32):
        words = np.ascontiguousarray(codes.astype(f"<u{width // 8}"))
        return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    bits = np.empty((*codes.shape, width), np.uint8)
    small = codes.astype(np.uint8 if width <= 8 else np.uint32)
    for position in range(width):  # along the long axes: the bits of one code are too few for a loop of numpy
        bits[..., position] = small >> position & 1
    return bits.reshape(*codes.shape[:-1], codes.shape[-1] * width)


def codes_of_bits(bits: Bits) -> Codes:
    """Return (..., width) bits as (...) codes."""
    width = bits.shape[-1]
    codes = np.zeros(bits.shape[:-1], np.uint8 if width <= 8 else np.uint32)
    for position in range(width):
        codes |= bits[..., position].astype(codes.dtype) << position
    return codes.astype(np.int64)
