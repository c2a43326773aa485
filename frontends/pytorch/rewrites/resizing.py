"""Resizing to the nearest element, where torch-mlir takes another element than torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch._decomp import decomposition_table


def nearest(operation: Any, *, always: bool = False) -> Callable[..., Any]:
    """Return what replaces ``aten.upsample_nearest*.vec``; `always`: because torch-mlir does not know it.

    torch multiplies places by the ratio of the sizes, torch-mlir divides by its inverse, both in float32. Where the
    elements are the same, or sizes are free, torch-mlir's loops stay, which are faster.
    """

    def decomposed(value: Any, sizes: Sequence[Any] | None, factors: Sequence[float] | None) -> Any:
        given = value.shape[2:]
        fixed = all(isinstance(n, int) for n in (*given, *(sizes or ())))
        if always or (fixed and _differs(given, sizes, factors)):
            return decomposition_table[operation](value, sizes, factors)
        return NotImplemented

    return decomposed


def _differs(given: Sequence[int], sizes: Sequence[int] | None, factors: Sequence[float] | None) -> bool:
    """Whether torch-mlir takes other elements along some dimension."""
    if factors is not None:
        wanted = [(int(n * factor), 1 / factor) for n, factor in zip(given, factors, strict=True)]
    else:
        wanted = [(size, n / size) for n, size in zip(given, sizes or (), strict=True)]
    return not all(_same(size, ratio) for size, ratio in wanted)


def _same(size: int, ratio: float) -> bool:
    places = np.arange(size, dtype=np.float32)
    return bool((np.floor(places * np.float32(ratio)) == np.floor(places / np.float32(1 / ratio))).all())
