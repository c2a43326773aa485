"""Numbers of few bits in larger words."""

from __future__ import annotations

import torch


def unpacked(words: torch.Tensor, bits: int, count: int, axis: int = -1) -> torch.Tensor:
    """Return `count` numbers of `bits` bits that lie one after the other along an axis, from the lowest bit on.

    words: integers, whose bytes follow each other as x86 has them in memory. bits: 1 to 8.
    """
    data = words.movedim(axis, -1).contiguous().view(torch.uint8)
    data = torch.nn.functional.pad(data, (0, 1)).to(torch.int32)  # the last number may end in the last byte
    first = torch.arange(count) * bits
    byte = first // 8
    both = data[..., byte] | data[..., byte + 1] << 8
    return ((both >> (first % 8).to(torch.int32)) & ((1 << bits) - 1)).to(torch.int16).movedim(-1, axis)


# The values of the 16 codes of E2M1, by code.
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def fp4(codes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the numbers of bytes that hold two codes of E2M1 each, the first one in the low bits."""
    values = torch.tensor(_FP4, dtype=dtype)
    return values[unpacked(codes, 4, 2 * codes.shape[-1]).to(torch.int32)]


def power(exponents: torch.Tensor) -> torch.Tensor:
    """Return the powers of two, as float32, of bytes that hold their exponents plus 127."""
    biased = exponents.view(torch.uint8).to(torch.int32)
    return torch.where(biased == 0, 1 << 22, biased << 23).view(torch.float32)  # 2**-127 is subnormal
