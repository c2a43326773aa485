"""Operations with a number, which torch-mlir lacks, or whose constants it would fold to wrong results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def comparisons() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of comparisons of floating-point numbers with an integer."""
    return {
        operation: _compared(operation)
        for operation in (
            aten.eq.Scalar,
            aten.ne.Scalar,
            aten.lt.Scalar,
            aten.le.Scalar,
            aten.gt.Scalar,
            aten.ge.Scalar,
        )
    }


def of_tensors() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of operations with a number that torch-mlir has only for two tensors."""
    return {packet.Scalar: _of_tensors(packet.Tensor) for packet in (aten.bitwise_or, aten.bitwise_xor, aten.fmod)}


def from_number(value: torch.Tensor, number: Any, alpha: Any = 1) -> torch.Tensor:
    """aten.rsub.Scalar, in which torch's own decomposition rounds the number to float32, also beside float64."""
    if torch.result_type(value, number) != torch.float64:
        return torch._refs.rsub(value, number, alpha=alpha)
    found: torch.Tensor = aten.sub.Tensor(torch.full((), number, dtype=torch.float64), value.double(), alpha=alpha)
    return found


def _of_tensors(operation: Any) -> Callable[..., Any]:
    def decomposed(value: torch.Tensor, number: Any) -> torch.Tensor:
        dtype = torch.result_type(value, number)
        found: torch.Tensor = operation(value.to(dtype), torch.full((), number, dtype=dtype))
        return found

    return decomposed


def _compared(operation: Any) -> Callable[..., Any]:
    def decomposed(value: torch.Tensor, number: Any) -> torch.Tensor:
        if not value.is_floating_point() or type(number) is not int:
            return NotImplemented
        found: torch.Tensor = operation(value, float(number))
        return found

    return decomposed
