"""Operations with a number, whose constants torch-mlir would fold to wrong results."""

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


def bitwise() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of bitwise operations with a number, which torch-mlir lacks."""
    packets = aten.bitwise_or, aten.bitwise_xor
    return {
        packet.Scalar: lambda value, number, packet=packet: packet.Tensor(
            value, torch.full((), number, dtype=torch.result_type(value, number))
        )
        for packet in packets
    }


def _compared(operation: Any) -> Callable[..., Any]:
    def decomposed(value: torch.Tensor, number: Any) -> torch.Tensor:
        if not value.is_floating_point() or type(number) is not int:
            return NotImplemented
        found: torch.Tensor = operation(value, float(number))
        return found

    return decomposed
