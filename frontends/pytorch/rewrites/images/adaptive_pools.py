"""Adaptive averages of images of free sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table


def adaptive_avg_pool(operation: Any) -> Callable[..., Any]:
    """Return what replaces ``aten._adaptive_avg_pool2d`` or 3d where sizes of the image are free, and no others.

    It averages along one dimension after the other. Torch's own decomposition assumes that all windows stay as long as
    those of the example.
    """

    def decomposed(value: torch.Tensor, sizes: Sequence[Any]) -> Any:
        lengths = value.shape[-len(sizes) :]
        if all(isinstance(size, int) for size in lengths) or not all(isinstance(size, int) for size in sizes):
            of_torch = decomposition_table.get(operation)
            return NotImplemented if of_torch is None else of_torch(value, sizes)
        for dim, (length, count) in enumerate(zip(lengths, sizes, strict=True), start=-len(sizes)):
            bounds = [(n * length // count, ((n + 1) * length + count - 1) // count) for n in range(count)]
            parts = [value.narrow(dim, start, end - start).sum(dim) / (end - start) for start, end in bounds]
            value = torch.stack(parts, dim)
        return value

    return decomposed
