"""Operations with a number, which torch-mlir lacks, or whose constants it would fold to wrong results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

aten = torch.ops.aten

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
OF_ONE_DTYPE = (
    *(
        operation
        for packet in (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
        for operation in (packet.Scalar, packet.Tensor)
    ),
    *(aten.remainder.Scalar, aten.remainder.Tensor, aten.fmod.Tensor, aten.sub.Tensor, aten.mul.Tensor),
    *(aten.maximum.default, aten.minimum.default, aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default),
)
"""Operations of which torch-mlir reads each operand in its own dtype."""
_OF_TWO_TENSORS = {
    aten.sub.Tensor: aten.sub.Tensor,
    aten.mul.Tensor: aten.mul.Tensor,
    aten.remainder.Scalar: aten.remainder.Tensor,
}
"""On these of int8 and a number torch-mlir crashes, but not on those of two tensors."""


def in_one_dtype(operation: Any, otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a decomposition that brings operands to their common dtype if they are integers.

    otherwise: the decomposition of operands that have it.
    """

    def decomposed(*args: Any, **options: Any) -> Any:
        names, operands = list(options), (*args, *options.values())
        if (converted := common(operands)) is not None:
            return operation(*converted[: len(args)], **dict(zip(names, converted[len(args) :], strict=True)))
        if operation in _OF_TWO_TENSORS and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.int8:
            value, other = args
            if isinstance(other, (float, torch.SymFloat)):
                return operation(value.to(torch.get_default_dtype()), other, **options)
            if not isinstance(other, torch.Tensor):
                return _OF_TWO_TENSORS[operation](value, torch.full((), other, dtype=torch.int8), **options)
        return NotImplemented if otherwise is None else otherwise(*args, **options)

    return decomposed


def equal(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten.eq.Tensor of floats: torch-mlir takes a tensor for equal to itself, also where it has NaN."""
    if not (one.is_floating_point() or other.is_floating_point()):
        return NotImplemented
    return torch.logical_not(torch.ne(one, other))


def common(given: Sequence[Any]) -> list[Any] | None:
    """Return operands in their common dtype of integers, as eager torch has them: beside uint8, -7 is 249.

    None if there is nothing to change. What is neither a tensor nor an integer stays as it is.
    """
    operands = [each for each in given if isinstance(each, torch.Tensor) or type(each) in (int, float)]
    dtype = elementwise_dtypes(*operands, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[1]
    if dtype not in INTEGERS:
        return None
    converted = [_in_dtype(each, dtype) for each in given]
    return None if all(new is old for new, old in zip(converted, given, strict=True)) else converted


def _in_dtype(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.dtype == dtype else value.to(dtype)
    if type(value) is not int or dtype not in INTEGERS:
        return value
    limits = torch.iinfo(dtype)
    if limits.min <= value <= limits.max:
        return value
    return (value - limits.min) % (1 << limits.bits) + limits.min


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
    shifts = (aten.bitwise_left_shift, aten.bitwise_right_shift)
    bits = (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)
    return {
        **{packet.Scalar: _of_tensors(packet.Tensor) for packet in (aten.bitwise_or, aten.bitwise_xor, aten.fmod)},
        **{packet.Scalar_Tensor: _of_tensors(packet.Tensor) for packet in (*bits, *shifts, aten.remainder)},
        aten.pow.Scalar: power_of_number,
    }


def power_of_number(number: Any, exponent: torch.Tensor) -> torch.Tensor:
    """aten.pow.Scalar of integers."""
    if torch.result_type(number, exponent) not in INTEGERS:
        return NotImplemented
    return _of_tensors(aten.pow.Tensor_Tensor)(number, exponent)


def from_number(value: torch.Tensor, number: Any, alpha: Any = 1) -> torch.Tensor:
    """aten.rsub.Scalar, in which torch's own decomposition rounds the number to float32, also beside float64."""
    if torch.result_type(value, number) != torch.float64:
        return torch._refs.rsub(value, number, alpha=alpha)
    difference: torch.Tensor = aten.sub.Tensor(torch.full((), number, dtype=torch.float64), value.double(), alpha=alpha)
    return difference


def _of_tensors(operation: Any) -> Callable[..., Any]:
    def decomposed(one: Any, other: Any) -> torch.Tensor:
        dtype = torch.result_type(one, other)
        output: torch.Tensor = operation(
            *(
                each.to(dtype)
                if isinstance(each, torch.Tensor)
                else torch.full((), _in_dtype(each, dtype), dtype=dtype)
                for each in (one, other)
            )
        )
        return output

    return decomposed


def _compared(operation: Any) -> Callable[..., Any]:
    def decomposed(value: torch.Tensor, number: Any) -> torch.Tensor:
        if not value.is_floating_point() or type(number) is not int:
            return NotImplemented
        output: torch.Tensor = operation(value, float(number))
        return output

    return decomposed
