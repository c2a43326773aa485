"""Common divisors and multiples of integers."""

from __future__ import annotations

import torch

from numc.frontends.pytorch import operators


def gcd(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """aten.gcd; the magnitude of the least integer is itself, as in eager torch."""
    dtype = torch.result_type(left, right)
    left, right = (_magnitude(each.to(dtype)).to(_wide(dtype)) for each in torch.broadcast_tensors(left, right))
    return operators.gcd(left, right).to(dtype)


def lcm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """aten.lcm. Where eager torch divides the least integer by -1, which ends the process, the quotient wraps."""
    dtype = torch.result_type(left, right)
    left, right = torch.broadcast_tensors(left.to(dtype), right.to(dtype))
    divisor = gcd(left, right).to(_wide(dtype))
    left, right = left.to(_wide(dtype)), right.to(_wide(dtype))
    divides = (divisor != 0) & (divisor != -1)
    quotient = torch.div(left, torch.where(divides, divisor, 1), rounding_mode="trunc")
    multiple = torch.where(divisor == -1, -left, quotient) * right
    return torch.where(divisor == 0, 0, _magnitude(multiple)).to(dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which eager torch computes."""
    return torch.int64 if dtype == torch.int64 else torch.int32


def _magnitude(value: torch.Tensor) -> torch.Tensor:
    return value if value.dtype == torch.uint8 else value.abs()
