"""Signs, significands and exponents of floating-point numbers, and the next of them."""

from __future__ import annotations

import torch

from numc.frontends.pytorch.operators import bits

_LAYOUTS = {
    torch.float16: (10, 5),
    torch.bfloat16: (7, 8),
    torch.float32: (23, 8),
    torch.float64: (52, 11),
}
"""The bits of a significand behind its leading one, and those of an exponent."""


def nextafter(value: torch.Tensor, towards: torch.Tensor) -> torch.Tensor:
    """aten.nextafter of float32, float64 and bfloat16: the bits of a number are in its order, but for the sign."""
    dtype = torch.result_type(value, towards)
    if dtype not in (torch.float32, torch.float64, torch.bfloat16):
        return NotImplemented
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    value, towards = torch.broadcast_tensors(value.to(wide), towards.to(wide))
    step = 1 << (_LAYOUTS[wide][0] - _LAYOUTS[dtype][0])
    number = bits(value)
    grows = (towards > value) == (value > 0)
    result = bits(torch.where(grows, number + step, number - step))
    least = bits(torch.full_like(number, step))
    result = torch.where(value == 0, torch.where(towards > 0, least, -least), result)
    result = torch.where(value == towards, towards, result)
    unordered = value.isnan() | towards.isnan()
    return torch.where(unordered, float("nan"), result).to(dtype)


def frexp(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.frexp: a number from 1/2 below 1 and the exponent of its factor; of 0, infinities and NaN they and 0."""
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    digits, width = _LAYOUTS[wide]
    number, sign_bit = bits(value.to(wide)), digits + width
    magnitude = number & ((1 << sign_bit) - 1)
    # The significand of a subnormal number is an integer, which its dtype holds: the product that normalises it.
    small = magnitude < 1 << digits
    normal = torch.where(small, bits(magnitude.to(wide)), magnitude)
    bias = (1 << (width - 1)) - 2
    exponent = (normal >> digits) - torch.where(small, bias + bias + digits, bias)
    significand = (number ^ magnitude) | (normal & ((1 << digits) - 1)) | (bias << digits)
    itself = (magnitude == 0) | (magnitude >= ((1 << width) - 1) << digits)
    result = torch.where(itself, value.to(wide), bits(significand))
    return result.to(value.dtype), torch.where(itself, 0, exponent).int()
