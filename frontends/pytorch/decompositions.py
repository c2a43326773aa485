"""Decompositions of operations that torch-mlir does not lower, or lowers to other results than torch's.

One table for all graphs of PyTorch: those of torch.export and those of torch.compile, to which
frontends/training/decompositions.py adds what only training has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._prims_common import is_contiguous_or_false
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from numc.frontends.pytorch import scatters
from numc.frontends.pytorch.convolutions import constant_pad_nd, convolution

aten = torch.ops.aten


def lerp(start: torch.Tensor, end: torch.Tensor, weight: Any) -> torch.Tensor:
    """aten.lerp.Scalar, computed from the nearer end as in eager torch."""
    difference = end - start
    return add(start, difference, weight) if abs(weight) < 0.5 else add(end, difference, weight - 1)


def add(value: torch.Tensor, addend: torch.Tensor, factor: Any) -> torch.Tensor:
    """Return value + factor * addend, a multiply-add."""
    found: torch.Tensor = aten.add.Tensor(value, addend, alpha=factor)
    return found


def view(value: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """aten.view, also where a decomposition before it left its tensor with other strides than torch's own operation."""
    if is_contiguous_or_false(value):
        return NotImplemented
    return value.clone(memory_format=torch.contiguous_format).view(size)


@functools.cache
def decomposition_table() -> Mapping[Any, Callable[..., Any]]:
    """Return the decompositions by operation."""
    return {
        **get_decomposition_table(),
        aten.convolution.default: convolution,
        aten.constant_pad_nd.default: constant_pad_nd,
        aten.index_put.default: scatters.index_put,
        aten.scatter.src: scatters.scatter,
        aten.scatter.value: scatters.scatter_value,
        aten.scatter_add.default: scatters.scatter_add,
        aten.put.default: scatters.put,
        aten.view.default: view,
        aten.addcmul.default: lambda x, a, b, value=1: add(x, a * b, value),
        aten.addcdiv.default: lambda x, a, b, value=1: add(x, a / b, value),
        aten.lerp.Scalar: lerp,
    }
