"""Operations on int8, on which torch-mlir crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def in_int32(operation: Any) -> Callable[..., Any]:
    """Return a decomposition of an operation on tensors of int8: the same in int32, cut off to int8."""

    def decomposed(*values: torch.Tensor) -> Any:
        if values[0].dtype != torch.int8:
            return NotImplemented
        return operation(*(value.int() for value in values)).to(torch.int8)

    return decomposed
